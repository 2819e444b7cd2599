// What all pages have in common: the data of the page, rows that are about objects, clusters that are columns, and cells between them.

/** @typedef {{apiVersion: string, kind: string, namespace?: string, name: string}} ObjectRef */

/**
 * A row: an object with what the page computes of it once.
 * @typedef {{index: number, ref: ObjectRef, flags: Set<string>, severity: number, search: string}} Item
 */

/** @typedef {{name: string, region: string}} Column */

/**
 * A field of an item that has two values, and the clusters where it has them. `pattern` is what the values have in
 * common with others.
 * @typedef {{item: Item, field: string, clusters: string[], from: any, to: any, who?: string, pattern?: ValuePair}} ValueRow
 */

/** @typedef {{before: string, after: string}} ValuePair */

/** A sign and a word for each flag, the worst first. @typedef {Object<string, [string, string]>} FlagWords */

/**
 * The data of a page.
 * @param {Document} page
 * @returns {Promise<any>}
 */
export async function readDocument(page) {
  const data = page.getElementById('data');
  const text = atob(((data && data.textContent) || '').trim());
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return JSON.parse(await new Response(stream).text());
}

/**
 * What the list, the filter and links look up.
 * @template {Item} [I=Item]
 */
export class BaseModel {
  /**
   * @param {Column[]} columns
   * @param {FlagWords} flagWords
   */
  constructor(columns, flagWords) {
    this.columns = columns;
    this.flagWords = flagWords;
    /** The flags, the worst first. */
    this.flags = Object.keys(flagWords);
    /** @type {I[]} */
    this.items = [];
    /** The fields of items that were asked for. @type {Map<I, ValueRow[]>} */
    this.values = new Map();
    /** What an item is called. */
    this.noun = 'object';
    /** Whether items without flags are left out at first. */
    this.isDiff = false;
    /** The rows that are folded begin with this severity. */
    this.foldFrom = Infinity;
    /** What rows can be grouped by: a key and a word for each. @type {[string, string][]} */
    this.groupings = [['namespace', 'Namespace'], ['kind', 'Kind']];
    /** What the list is called. */
    this.title = 'Objects by cluster';
    /** What is said where nothing is shown, although nothing is filtered. */
    this.emptyText = 'Nothing to show.';
    this.regions = groupRegions(columns);
    /** Whether many clusters are shown as regions at first. */
    this.hasRegions = true;
  }

  /**
   * The severity of an item with these flags: less is worse.
   * @param {Set<string>} flags
   */
  getSeverity(flags) {
    const worst = this.flags.findIndex((flag) => flags.has(flag));
    return worst < 0 ? this.flags.length : worst;
  }

  /**
   * The fragment of the address that names an item.
   * @param {I} item
   */
  getPath(item) {
    return item.ref.kind + '/' + pathOf(item.ref);
  }

  /**
   * The item of a fragment such as `Deployment/shop/web`, whatever its case.
   * @param {string} fragment
   * @returns {I|undefined}
   */
  findItem(fragment) {
    const wanted = fragment.toLowerCase();
    return this.items.find((item) => {
      const group = item.ref.apiVersion.includes('/') ? item.ref.apiVersion.split('/')[0] : '';
      return this.getPath(item).toLowerCase() === wanted || (item.ref.kind + '.' + group + '/' + pathOf(item.ref)).toLowerCase() === wanted;
    });
  }

  /**
   * The group of an item.
   * @param {I} item
   * @param {string} groupBy
   * @returns {string}
   */
  getGroup(item, groupBy) {
    return groupBy === 'kind' ? item.ref.kind : item.ref.namespace || 'no namespace';
  }

  /**
   * The name of the policy that places an item; empty if none does.
   * @param {I} item
   * @returns {string}
   */
  getPolicy(item) {
    return '';
  }

  /**
   * How many objects follow an item.
   * @param {I} item
   */
  countFollowers(item) {
    return 0;
  }

  /**
   * Whether an item has anything to do with a cluster.
   * @param {I} item
   * @param {number} column
   */
  isOnCluster(item, column) {
    return false;
  }

  /**
   * The state of a cluster, as a class, and the words for it that follow its name.
   * @param {number} column
   * @returns {{state: string, words: string}}
   */
  describeColumn(column) {
    return { state: '', words: '' };
  }

  /**
   * What the filter searches, in small letters.
   * @param {I} item
   * @returns {string}
   */
  getSearchText(item) {
    if (!item.search) item.search = this.listWords(item).join('\n').toLowerCase();
    return item.search;
  }

  /**
   * What the filter searches.
   * @param {I} item
   * @returns {string[]}
   */
  listWords(item) {
    return [item.ref.kind, pathOf(item.ref)];
  }

  /**
   * The fields of an item that have two values.
   * @param {I} item
   * @returns {ValueRow[]}
   */
  getValues(item) {
    let values = this.values.get(item);
    if (!values) {
      values = this.listValues(item);
      this.values.set(item, values);
    }
    return values;
  }

  /**
   * The fields of an item that have two values.
   * @param {I} item
   * @returns {ValueRow[]}
   */
  listValues(item) {
    return [];
  }
}

/** What shows the items that the filter lets through, such as the matrix. */
export class ItemList {
  /**
   * @param {Item[]} items
   * @param {boolean} isFiltered
   */
  setItems(items, isFiltered) {}

  /**
   * Moves the focus to an item.
   * @param {Item} item
   */
  focusItem(item) {}

  /**
   * The item before or after another one, in the order of the list.
   * @param {Item} item
   * @param {number} step
   * @returns {Item|undefined}
   */
  findNeighbor(item, step) {
    return undefined;
  }
}

/** What a list shows of an item in a cluster, or in the clusters of a region. */
export class CellView {
  /**
   * The state of a cell, which is its class; `none` where there is nothing to show.
   * @param {Item} item
   * @param {number} column
   * @returns {string}
   */
  getState(item, column) {
    return 'none';
  }

  /**
   * Further classes of a cell.
   * @param {Item} item
   * @param {number} column
   */
  getClasses(item, column) {
    return '';
  }

  /**
   * A cell in a word or two.
   * @param {Item} item
   * @param {number} column
   */
  getText(item, column) {
    return '';
  }

  /**
   * A cell in a few signs, for columns without room.
   * @param {Item} item
   * @param {number} column
   */
  getShortText(item, column) {
    return '';
  }

  /**
   * A cell as a sentence, for those who hear it.
   * @param {Item} item
   * @param {number} column
   */
  getSentence(item, column) {
    return '';
  }

  /**
   * The sum over the clusters of a region.
   * @param {Item} item
   * @param {number[]} columns
   */
  getSum(item, columns) {
    return '';
  }

  /**
   * The sum over all clusters.
   * @param {Item} item
   */
  getTotal(item) {
    return '';
  }

  /**
   * A sentence on the clusters of a region.
   * @param {Item} item
   * @param {{name: string, clusters: number[]}} region
   */
  getRegionSentence(item, region) {
    return '';
  }

  /**
   * One tick per cluster.
   * @param {Item} item
   * @param {number[]} columns
   * @returns {Node}
   */
  createStrip(item, columns) {
    return document.createTextNode('');
  }
}

/**
 * The columns by region, each region with the numbers of its columns.
 * @param {Column[]} columns
 */
function groupRegions(columns) {
  /** @type {Map<string, number[]>} */
  const regions = new Map();
  columns.forEach((column, at) => {
    const region = column.region || 'no region';
    const known = regions.get(region);
    if (known) known.push(at);
    else regions.set(region, [at]);
  });
  return [...regions].sort((a, b) => (a[0] < b[0] ? -1 : 1)).map(([name, clusters]) => ({ name, clusters }));
}

/**
 * `namespace/name`, or only the name.
 * @param {ObjectRef} ref
 * @returns {string}
 */
export function pathOf(ref) {
  return ref.namespace ? ref.namespace + '/' + ref.name : ref.name;
}

/**
 * A value in text; strings without quotes.
 * @param {any} value
 * @returns {string}
 */
export function valueText(value) {
  if (value === undefined) return '–';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
