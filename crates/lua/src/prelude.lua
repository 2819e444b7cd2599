-- The globals of scripts. The machine runs this file once; the function that it returns makes fresh globals
-- for a run. `host` holds the functions that are written in Rust: each returns true and its results, or false
-- and the error message.
local host = ...

local error, type, select, pairs, next, unpack = error, type, select, pairs, next, unpack
local native_pcall, native_tostring = pcall, tostring
local native_concat, native_sort, floor, compile = table.concat, table.sort, math.floor, loadstring
local strings = getmetatable("")

-- Work on strings beyond this length counts.
local LONG = 1024
-- The longest list that `unpack` takes apart.
local MANY = 4000

local function charge(amount)
  if not host.charge(amount) then
    error("the script takes too long", 0)
  end
end

local function number_text(n)
  if n % 1 == 0 and n > -1e14 and n < 1e14 then
    return n == 0 and "0" or native_tostring(n)
  end
  return host.number(n)
end

local function text(value)
  local kind = type(value)
  if kind == "string" then return value end
  if kind == "number" then return number_text(value) end
  if kind == "nil" or kind == "boolean" then return native_tostring(value) end
  -- An address would differ from run to run.
  return kind .. ": 0x0"
end

-- `a .. b` is compiled as `a .. joiner .. b`, because gopher-lua writes numbers in another way than C.
local joiner = {}
local function operand(value)
  local kind = type(value)
  if kind == "string" then return value end
  if kind == "number" then return number_text(value) end
  error("attempt to concatenate a " .. kind .. " value", 3)
end
setmetatable(joiner, {
  __concat = function(a, b)
    if a == joiner then
      joiner.right = b
      return joiner
    end
    local joined = operand(a) .. operand(joiner.right)
    if #joined > LONG then host.measure_text(joined) charge(#joined / 64) end
    return joined
  end,
})

-- The host's functions as the script's: a failure is an error at the call.
local function finish(ok, ...)
  if ok then return ... end
  error((...), 3)
end
local function hosted(f)
  return function(...) return finish(f(...)) end
end
local function library(functions)
  local wrapped = {}
  for name, f in pairs(functions) do wrapped[name] = hosted(f) end
  return wrapped
end

-- Functions that exist and are refused.
local function refused(name)
  return function()
    error("call function " .. name .. " is not supported in karmada customized resourceinterpreter", 2)
  end
end

local function settled(ok, ...)
  if host.exhausted() then error("the script takes too long", 0) end
  if ok then return true, ... end
  local what = ...
  if type(what) == "userdata" then what = host.message(what) end
  -- What goes on without memory only fails again.
  if what == host.no_memory then
    host.end_of_memory()
    error(what, 0)
  end
  return false, what
end

local function expect(value, kind, at, name)
  if type(value) == kind then return value end
  if kind == "number" and type(value) == "string" then
    local ok, number = host.tonumber(value)
    if ok and number then return number end
  end
  error("bad argument #" .. at .. " to " .. name .. " (" .. kind .. " expected, got " .. type(value) .. ")", 3)
end

local function string_of(value, at, name)
  local kind = type(value)
  if kind == "string" then return value end
  if kind == "number" then return number_text(value) end
  error("bad argument #" .. at .. " to " .. name .. " (string expected, got " .. kind .. ")", 3)
end

local function sort(list, less)
  local n = #list
  local from, to, width = list, {}, 1
  while width < n do
    for left = 1, n, 2 * width do
      local middle, last = left + width, left + 2 * width - 1
      if middle > n + 1 then middle = n + 1 end
      if last > n then last = n end
      local i, j = left, middle
      for at = left, last do
        if i < middle and (j > last or not less(from[j], from[i])) then
          to[at] = from[i]
          i = i + 1
        else
          to[at] = from[j]
          j = j + 1
        end
      end
    end
    if from == list then
      from, to = to, {}
    else
      from, to = to, from
    end
    width = 2 * width
  end
  if from ~= list then
    for at = 1, n do list[at] = from[at] end
  end
end
local function less(a, b) return a < b end

-- A walk over a table may have to pass many places that are empty by now, again and again.
local function begin_walk()
  if not host.walk() then error("the script takes too long", 0) end
end

local tables = {
  insert = function(list, ...)
    expect(list, "table", 1, "insert")
    local given = select("#", ...)
    if given == 0 then error("wrong number of arguments", 2) end
    local n = #list
    if given == 1 then
      list[n + 1] = ...
      return
    end
    local at, value = ...
    at = floor(expect(at, "number", 2, "insert"))
    for i = n, at, -1 do list[i + 1] = list[i] end
    list[at] = value
  end,
  remove = function(list, at)
    expect(list, "table", 1, "remove")
    local n = #list
    if at == nil then at = n end
    at = floor(expect(at, "number", 2, "remove"))
    if n == 0 or at < 1 or at > n then return nil end
    local removed = list[at]
    for i = at, n - 1 do list[i] = list[i + 1] end
    list[n] = nil
    return removed
  end,
  concat = function(list, separator, first, last)
    expect(list, "table", 1, "concat")
    separator = separator == nil and "" or string_of(separator, 2, "concat")
    first = first == nil and 1 or expect(first, "number", 3, "concat")
    last = last == nil and #list or expect(last, "number", 4, "concat")
    local parts, size = {}, 0
    for i = first, last do
      local kind = type(list[i])
      if kind ~= "string" and kind ~= "number" then
        error("invalid value (" .. kind .. ") at index " .. i .. " in table for concat", 2)
      end
      local part = text(list[i])
      parts[#parts + 1] = part
      size = size + #part + #separator
      if size > host.longest then error("not enough memory", 2) end
    end
    if size > LONG then charge(size / 64) end
    local joined = native_concat(parts, separator)
    if size > LONG then host.measure_text(joined) end
    return joined
  end,
  sort = function(list, compare)
    expect(list, "table", 1, "sort")
    if compare ~= nil then expect(compare, "function", 2, "sort") end
    sort(list, compare or less)
  end,
  getn = function(list) return #expect(list, "table", 1, "getn") end,
  maxn = function(list)
    begin_walk()
    local most = 0
    for key in pairs(expect(list, "table", 1, "maxn")) do
      if type(key) == "number" and key > most then most = key end
    end
    return most
  end,
}

local function find_all(subject, pattern)
  local step = hosted(host.gmatch)
  subject, pattern = string_of(subject, 1, "gmatch"), string_of(pattern, 2, "gmatch")
  local from = 1
  local function captured(next_from, ...)
    if next_from == nil then return nil end
    from = next_from
    return ...
  end
  return function() return captured(step(subject, pattern, from)) end
end

local base = {
  assert = function(value, ...)
    if value then return value, ... end
    local message = ...
    if message == nil then message = "assertion failed!" end
    error(message, 2)
  end,
  pcall = function(...) return settled(native_pcall(...)) end,
  -- The native one runs the handler inside of the hook that enforces the limits, so that the handler has none.
  xpcall = function(called, handler)
    local function handled(ok, ...)
      if ok then return true, ... end
      return false, handler(...)
    end
    return handled(settled(native_pcall(called)))
  end,
  tostring = function(...)
    if select("#", ...) == 0 then error("bad argument #1 to tostring (value expected)", 2) end
    return text((...))
  end,
  tonumber = hosted(host.tonumber),
  unpack = function(list, first, last)
    expect(list, "table", 1, "unpack")
    first = first == nil and 1 or expect(first, "number", 2, "unpack")
    last = last == nil and #list or expect(last, "number", 3, "unpack")
    if last - first >= MANY then error("too many results to unpack", 2) end
    charge(last - first + 1)
    -- Each instruction that copies the results takes as long as one on a string of that size.
    if last - first > 128 then host.measure(16 * (last - first)) end
    return unpack(list, first, last)
  end,
  next = function(list, key)
    expect(list, "table", 1, "next")
    begin_walk()
    return next(list, key)
  end,
  pairs = function(list)
    expect(list, "table", 1, "pairs")
    begin_walk()
    local key, value
    return function()
      key, value = next(list, key)
      return key, value
    end
  end,
  print = function() end,
}

local blocked = {}
for _, name in pairs({
  "collectgarbage", "dofile", "getfenv", "getmetatable", "load", "loadfile", "loadstring", "rawequal",
  "rawget", "rawset", "setfenv", "setmetatable", "module", "newproxy",
}) do
  blocked[name] = refused(name)
end

local string_library = library(host.string)
string_library.gmatch, string_library.gfind = find_all, find_all
for _, name in pairs({ "rep", "gsub", "dump" }) do string_library[name] = refused("string." .. name) end
local kube_library, os_library = library(host.kube), library(host.os)
local loadlib = refused("package.loadlib")

-- The same numbers in every run: a plan must not depend on chance.
local function random_numbers()
  local state = 1
  local function random(from, to)
    state = state * 16807 % 2147483647
    local part = (state - 1) / 2147483646
    if from == nil then return part end
    from = floor(expect(from, "number", 1, "random"))
    if to == nil then from, to = 1, from end
    to = floor(expect(to, "number", 2, "random"))
    if to < from then error("bad argument to random (interval is empty)", 2) end
    return from + floor(part * (to - from + 1))
  end
  local function seed(value)
    state = floor(expect(value, "number", 1, "randomseed")) % 2147483646 + 1
  end
  return random, seed
end

-- Returns a function that makes copies of a table with strings as keys. The copies are made by a constructor
-- with all keys: each run gets fresh tables, and a loop over `pairs` would take most of the time of a short run.
local function copier(from)
  local fields = {}
  for key in pairs(from) do fields[#fields + 1] = '["' .. key .. '"] = from["' .. key .. '"]' end
  native_sort(fields)
  local text = "local from = ... return function() return {" .. native_concat(fields, ", ") .. "} end"
  return compile(text, "=prelude")(from)
end

local mathematics = {}
for name, f in pairs(math) do mathematics[name] = f end
mathematics.huge = 1.7976931348623157e308

local ipairs = ipairs
for name, f in pairs({ error = error, type = type, select = select, ipairs = ipairs, _VERSION = "Lua 5.1" }) do
  blocked[name] = f
end
for name, f in pairs(base) do blocked[name] = f end
local new_globals, new_string, new_table = copier(blocked), copier(string_library), copier(tables)
local new_math, new_os, new_kube = copier(mathematics), copier(os_library), copier(kube_library)

return joiner, function()
  local globals = new_globals()
  local strings_of_run, tables_of_run, math_of_run, os_of_run = new_string(), new_table(), new_math(), new_os()
  globals._G = globals
  globals.string, globals.table, globals.math, globals.os = strings_of_run, tables_of_run, math_of_run, os_of_run
  math_of_run.random, math_of_run.randomseed = random_numbers()
  strings.__index = strings_of_run
  local preload = {}
  local package = { loaded = false, preload = preload, path = "", cpath = "", loadlib = loadlib }
  local loaded = {
    _G = globals, string = strings_of_run, table = tables_of_run, math = math_of_run, os = os_of_run,
    kube = new_kube(), package = package,
  }
  package.loaded = loaded
  globals.package = package
  globals.require = function(name)
    name = string_of(name, 1, "require")
    if loaded[name] ~= nil then return loaded[name] end
    local loader = preload[name]
    if type(loader) ~= "function" then error("module " .. name .. " not found", 2) end
    local module = loader(name)
    if module == nil then module = true end
    loaded[name] = module
    return module
  end
  return globals
end
