// Which objects are shown: by words, by signs of the verdict, by where they are.
import { FLAG_WORDS, Model, NOT_THERE } from './data.js';

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
 * Whether an object is shown: every term holds, and one of the flags if there are any.
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {FilterTerm[]} terms
 * @param {Set<string>} flags
 * @returns {boolean}
 */
export function matchesFilter(model, item, terms, flags) {
  if (flags.size > 0 && ![...flags].some((flag) => item.flags.has(flag))) return false;
  return terms.every((term) => matchesTerm(model, item, term) !== term.exclude);
}

/**
 * @param {Model} model
 * @param {import('./data.js').Item} item
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
      return item.leader.toLowerCase().includes(term.word);
    case 'is':
      return [...item.flags].some((flag) => {
        return flag.toLowerCase() === term.word || FLAG_WORDS[flag][1].replace(/ /g, '-').startsWith(term.word);
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
 * @param {Model} model
 * @param {import('./data.js').Item} item
 * @param {(cluster: import('./data.js').PageCluster) => boolean} isMeant
 * @returns {boolean}
 */
function isOnCluster(model, item, isMeant) {
  return model.data.clusters.some((cluster, at) => {
    const isThere = item.after.replicas[at] !== NOT_THERE || item.before.replicas[at] !== NOT_THERE;
    return isThere && isMeant(cluster);
  });
}
