// Builds elements. Text of a repo only ever becomes a text node: nothing here parses markup.

/**
 * Creates an element. Of the properties, `class` and `text` are what they say, functions listen to the event of their name,
 * and the rest are attributes; `true` is an attribute without a value, and `false` or `undefined` none.
 * @param {string} tag
 * @param {Object<string, any>} [properties]
 * @param {...(Node|string|null|undefined)} children
 * @returns {HTMLElement}
 */
export function createElement(tag, properties, ...children) {
  const element = document.createElement(tag);
  setProperties(element, properties);
  appendChildren(element, children);
  return element;
}

/**
 * Creates an element of a drawing.
 * @param {string} tag
 * @param {Object<string, any>} [properties]
 * @param {...(Node|string|null|undefined)} children
 * @returns {SVGElement}
 */
export function createDrawing(tag, properties, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  setProperties(element, properties);
  appendChildren(element, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Object<string, any>} [properties]
 */
function setProperties(element, properties) {
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === 'class') element.setAttribute('class', value);
    else if (name === 'text') element.textContent = showText(value);
    else if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
}

/**
 * @param {Element} element
 * @param {(Node|string|null|undefined)[]} children
 */
export function appendChildren(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === '') continue;
    element.append(typeof child === 'string' ? showText(child) : child);
  }
}

/**
 * What cannot be seen: all but letters, marks, numbers, punctuation, symbols and the space, and those of them that are seen as nothing.
 * The rule is that of the module `display_text`.
 */
const HIDDEN = /[^\p{L}\p{M}\p{N}\p{P}\p{S} \n\t]|[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\u{13441}-\u{13446}\u{16fe4}\u{1d159}\u{1d173}-\u{1d17a}\u{1da7f}\u{1da80}\u{e0000}-\u{e0fff}]/gu;

/**
 * Text in which everything can be seen.
 * @param {any} value
 * @returns {string}
 */
export function showText(value) {
  return String(value).replace(HIDDEN, (sign) => '\\u{' + (sign.codePointAt(0) || 0).toString(16) + '}');
}

/**
 * Replaces what an element contains.
 * @param {Element} element
 * @param {...(Node|string|null|undefined)} children
 */
export function replaceChildren(element, ...children) {
  element.textContent = '';
  appendChildren(element, children);
}

/**
 * An element of the page that is always there.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function getElement(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error('the page has no element ' + id);
  return element;
}

/**
 * `1 object`, `2 objects`.
 * @param {number} number
 * @param {string} word
 * @returns {string}
 */
export function countWord(number, word) {
  return number + ' ' + word + (number === 1 ? '' : 's');
}
