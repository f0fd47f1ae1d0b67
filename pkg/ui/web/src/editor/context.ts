// Where in a Cluster a position of the text is. It reads indentation, so it works while the YAML is incomplete.

/** An entry of a list in a path. */
export const entry = '[]';

export interface Context {
  /** The keys from the document's root. A list adds an entry. */
  path: string[];
  /** What the user types at the position: a key, or the value of the last key in the path. */
  what: 'key' | 'value';
  /** The beginning of the typed word, relative to its line. */
  from: number;
  /** The keys that exist beside the typed key. */
  siblings: string[];
  /** The column of the typed key. */
  column: number;
}

interface Line {
  /** The columns of dashes. */
  dashes: number[];
  /** The column behind the dashes. */
  column: number;
  key?: string;
  /** What follows the key and its colon. */
  value?: string;
}

const dash = /^- */;
const keyPattern = /^("[^"]*"|'[^']*'|[^\s#:"'[\]{}&*!|>%@`-][^#:]*|-[^\s#:]+)\s*:(?:\s+(.*))?$/;

/** Reads the structure of a line. Blank lines and comments have none. */
export function readLine(text: string): Line | undefined {
  let column = text.length - text.trimStart().length;
  let rest = text.slice(column);
  if (rest === '' || rest.startsWith('#')) return undefined;
  const dashes: number[] = [];
  for (let found = dash.exec(rest); found && (found[0].length > 1 || rest === '-'); found = dash.exec(rest)) {
    dashes.push(column);
    column += found[0].length;
    rest = rest.slice(found[0].length);
  }
  const found = keyPattern.exec(rest);
  if (!found) return { dashes, column };
  return { dashes, column, key: found[1]!.trim().replaceAll(/^["']|["']$/g, ''), value: found[2] ?? '' };
}

/** The lines of the document around a line, and the number of its first line. */
function documentAt(lines: readonly string[], at: number): [string[], number] {
  const separates = (line: string) => /^---(\s|$)/.test(line);
  let [start, end] = [at, at + 1];
  while (start > 0 && !separates(lines[start - 1]!)) start--;
  while (end < lines.length && !separates(lines[end]!)) end++;
  return [lines.slice(start, end), start];
}

/** What a user types at a position: the line from 0, and the column. It is undefined outside a Cluster. */
export function contextAt(text: string, lineAt: number, columnAt: number): Context | undefined {
  const [lines, first] = documentAt(text.split('\n'), lineAt);
  if (!lines.some((line) => /^kind:\s*["']?Cluster\b/.test(line))) return undefined;
  const here = lineAt - first;
  const typed = lines[here]?.slice(0, columnAt) ?? '';
  if (typed.trimStart().startsWith('#')) return undefined;
  const line = readLine(typed) ?? { dashes: [], column: columnAt };
  // A key without a space behind its colon is complete, and its value is on the next lines.
  const isValue = line.key !== undefined && typed.slice(line.column).includes(': ');
  if (line.key !== undefined && !isValue) return undefined;
  const path = pathOf(lines, here, line);
  if (isValue) {
    const from = typed.length - (line.value ?? '').length;
    return { path: [...path, line.key!], what: 'value', from, siblings: [], column: line.column };
  }
  return { path, what: 'key', from: line.column, siblings: siblingsOf(lines, here, line), column: line.column };
}

/** The path of the map or list that holds what begins at a line. */
function pathOf(lines: readonly string[], here: number, line: Line): string[] {
  const path: string[] = [];
  let column = line.column;
  let inList = false;
  const climbDashes = (dashes: readonly number[]) => {
    for (const at of dashes.toReversed())
      if (at < column) {
        path.unshift(entry);
        [column, inList] = [at, true];
      }
  };
  climbDashes(line.dashes);
  for (let i = here - 1; i >= 0 && (column > 0 || inList); i--) {
    const above = readLine(lines[i]!);
    if (!above) continue;
    const holds = above.column < column || (inList && above.column === column && above.dashes.length === 0);
    if (above.key !== undefined && holds) {
      path.unshift(above.key);
      [column, inList] = [above.column, false];
    }
    climbDashes(above.dashes);
  }
  return path;
}

/** The other keys of the map that a line belongs to. */
function siblingsOf(lines: readonly string[], here: number, line: Line): string[] {
  const out: string[] = [];
  const belongs = (i: number): boolean => {
    const other = readLine(lines[i]!);
    if (!other || other.column > line.column) return true;
    if (other.column < line.column) return false;
    if (other.key !== undefined) out.push(other.key);
    return true;
  };
  const begins = (i: number) => !!readLine(lines[i]!)?.dashes.some((at) => at < line.column);
  if (line.dashes.length === 0)
    for (let i = here - 1; i >= 0; i--) {
      if (!belongs(i) || (readLine(lines[i]!)?.column === line.column && begins(i))) break;
    }
  for (let i = here + 1; i < lines.length; i++) if (begins(i) || !belongs(i)) break;
  return out;
}
