// Which objects are shown: by words, by signs of the verdict, by where they are.
import { BaseModel } from './model.js';

/**
 * A term of a filter: `word`, `-word`, or `key:word`.
 * @typedef {{key: string, word: string, exclude: boolean}} FilterTerm
 */

const FILTER_KEYS = ['is', 'cluster', 'region', 'kind', 'ns', 'policy'];

/**
 * @param {string} text
 * @returns {FilterTerm[]}
 */
export function parseFilter(text) {
  return text
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '' && word !== '-')
    .map((word) => {
      const exclude = word.startsWith('-');
      const rest = exclude ? word.slice(1) : word;
      const colon = rest.indexOf(':');
      const key = colon > 0 ? rest.slice(0, colon) : '';
      return FILTER_KEYS.includes(key) ? { key, word: rest.slice(colon + 1), exclude } : { key: '', word: rest, exclude };
    });
}

/**
 * Whether an item is shown: every term holds, and one of the flags if there are any.
 * @param {BaseModel} model
 * @param {import('./model.js').Item} item
 * @param {FilterTerm[]} terms
 * @param {Set<string>} flags
 * @returns {boolean}
 */
export function matchesFilter(model, item, terms, flags) {
  if (flags.size > 0 && ![...flags].some((flag) => item.flags.has(flag))) return false;
  return terms.every((term) => matchesTerm(model, item, term) !== term.exclude);
}

/**
 * @param {BaseModel} model
 * @param {import('./model.js').Item} item
 * @param {FilterTerm} term
 * @returns {boolean}
 */
function matchesTerm(model, item, term) {
  switch (term.key) {
    case 'kind':
      return item.ref.kind.toLowerCase().startsWith(term.word);
    case 'ns':
      return (item.ref.namespace || '').toLowerCase() === term.word;
    case 'policy':
      return model.getPolicy(item).toLowerCase().includes(term.word);
    case 'is':
      return [...item.flags].some((flag) => {
        return flag.toLowerCase() === term.word || model.flagWords[flag][1].replace(/ /g, '-').startsWith(term.word);
      });
    case 'cluster':
      return isOnCluster(model, item, (cluster) => cluster.name.toLowerCase().includes(term.word));
    case 'region':
      return isOnCluster(model, item, (cluster) => cluster.region.toLowerCase().includes(term.word));
    default:
      return model.getSearchText(item).includes(term.word);
  }
}

/**
 * @param {BaseModel} model
 * @param {import('./model.js').Item} item
 * @param {(cluster: import('./model.js').Column) => boolean} isMeant
 * @returns {boolean}
 */
function isOnCluster(model, item, isMeant) {
  return model.columns.some((cluster, at) => model.isOnCluster(item, at) && isMeant(cluster));
}
