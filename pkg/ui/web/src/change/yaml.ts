import { isMap, isScalar, isSeq, parseAllDocuments, stringify, type Node, type Pair, type YAMLMap } from 'yaml';

// Edits of YAML that leave every other byte alone: comments, quotes, and the order of keys.

export type Path = readonly (string | number)[];

/** A manifest that a form cannot edit. The message is for the user. */
export class EditError extends Error {}

/** The document that describes the cluster. Machine configs can follow it. */
export function clusterOf(text: string): YAMLMap {
  for (const document of parseAllDocuments(text)) {
    const error = document.errors[0];
    if (error) throw new EditError(`The manifest is no valid YAML: ${error.message.split('\n')[0] ?? ''}`);
    const map = document.contents;
    if (isMap(map) && String(map.get('kind')) === 'Cluster') return map;
  }
  throw new EditError('The manifest has no Cluster.');
}

/** The value at a path, as plain data. */
export function valueAt(text: string, path: Path): unknown {
  const node = clusterOf(text).getIn(path, true);
  return isNode(node) ? node.toJSON() : node;
}

const isNode = (value: unknown): value is Node => isMap(value) || isSeq(value) || isScalar(value);

/** Sets the value at a path of the Cluster. It adds what the path lacks. A number in the path must exist. */
export function setAt(text: string, path: Path, value: unknown): string {
  let node: unknown = clusterOf(text);
  for (const [at, key] of path.entries()) {
    const rest = nested(path.slice(at + 1), value);
    if (isSeq(node) && typeof key === 'number') {
      node = node.items[key];
      continue;
    }
    if (!isMap(node) || typeof key === 'number') throw new EditError(`The manifest has no ${path.join('.')}.`);
    const pair = pairOf(node, key);
    if (!pair) return addTo(text, node, key, rest);
    if (at === path.length - 1 || isEmpty(pair.value)) return replace(text, node, pair, key, rest);
    node = pair.value;
  }
  throw new EditError(`The manifest has no ${path.join('.')}.`);
}

/** Removes the key at a path of the Cluster, and the maps that become empty. */
export function removeAt(text: string, path: Path): string {
  let node: unknown = clusterOf(text);
  let last: { map: YAMLMap; pair: Pair } | undefined;
  for (const key of path) {
    if (isSeq(node) && typeof key === 'number') {
      node = node.items[key];
      last = undefined;
      continue;
    }
    const pair = isMap(node) ? pairOf(node, key) : undefined;
    if (!isMap(node) || !pair) return text;
    // The highest map that holds nothing else goes as a whole.
    if (!last || node.items.length > 1) last = { map: node, pair };
    node = pair.value;
  }
  return last ? cut(text, last.map, last.pair) : text;
}

const keyOf = (pair: Pair) => (isScalar(pair.key) ? String(pair.key.value) : '');

const pairOf = (map: YAMLMap, key: string | number) => map.items.find((pair) => keyOf(pair) === String(key));

const isEmpty = (value: unknown) =>
  value === null || (isScalar(value) && value.value === null) || (isMap(value) && value.items.length === 0);

function nested(path: Path, value: unknown): unknown {
  return path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
}

// The server reads YAML 1.1, which has more words and numbers that need quotes, for example yes and 1_000.
const style = { lineWidth: 0, indentSeq: false, compat: 'yaml-1.1' } as const;

const write = (value: unknown) => stringify(value, style).trimEnd();

const startOf = (node: unknown) => (node as Node).range![0];

const endOfLine = (text: string, at: number) => {
  const end = text.indexOf('\n', at);
  return end < 0 ? text.length : end;
};

const columnOf = (text: string, at: number) => at - (text.lastIndexOf('\n', at - 1) + 1);

/** Writes a key and its value at a column. The first line has no indent. */
const entry = (key: string, value: unknown, column: number) =>
  write({ [key]: value }).replaceAll('\n', `\n${' '.repeat(column)}`);

/** Where the text of a pair ends. A map or a list reaches to the line before the next key. */
function endOf(text: string, pair: Pair): number {
  const value = pair.value as Node | null;
  const end = value?.range?.[1] ?? (pair.key as Node).range![1] + 1;
  return text[end - 1] === '\n' ? end - 1 : end;
}

function refuseFlow(map: YAMLMap) {
  if (map.flow && map.items.length > 0)
    throw new EditError('The manifest has braces where a form must write. Change it in the YAML editor.');
}

function addTo(text: string, map: YAMLMap, key: string, value: unknown): string {
  refuseFlow(map);
  const first = map.items[0];
  const last = map.items.at(-1);
  if (!first || !last) throw new EditError('The manifest has an empty Cluster.');
  const column = columnOf(text, startOf(first.key));
  // The comment behind the last value stays with it.
  const at = endOfLine(text, endOf(text, last));
  return `${text.slice(0, at)}\n${' '.repeat(column)}${entry(key, value, column)}${text.slice(at)}`;
}

function replace(text: string, map: YAMLMap, pair: Pair, key: string, value: unknown): string {
  const old = pair.value;
  const isPlain = value === null || typeof value !== 'object';
  if (isPlain && isScalar(old) && old.range && old.value !== null && !/^[|>]/.test(old.source ?? '')) {
    const [from, to] = old.range;
    if (!text.slice(from, to).includes('\n')) return text.slice(0, from) + write(value) + text.slice(to);
  }
  refuseFlow(map);
  const from = startOf(pair.key);
  return text.slice(0, from) + entry(key, value, columnOf(text, from)) + text.slice(endOf(text, pair));
}

function cut(text: string, map: YAMLMap, pair: Pair): string {
  refuseFlow(map);
  const from = startOf(pair.key);
  const end = endOfLine(text, endOf(text, pair)) + 1;
  const start = from - columnOf(text, from);
  // The first key of an entry of a list shares its line with the dash.
  if (text.slice(start, from).trim() !== '') {
    const next = map.items[map.items.indexOf(pair) + 1];
    if (!next) throw new EditError('The manifest cannot lose this key. Change it in the YAML editor.');
    return text.slice(0, from) + text.slice(startOf(next.key));
  }
  return text.slice(0, start) + text.slice(end);
}
