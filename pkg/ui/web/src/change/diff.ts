/** A line of a comparison. */
export interface DiffLine {
  kind: 'same' | 'removed' | 'added';
  text: string;
}

/** A comparison takes memory for each pair of lines. */
const mostCells = 4_000_000;

/** Compares two texts line by line. Lines that stay are those of a longest common subsequence. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return [
    ...lines('same', a.slice(0, start)),
    ...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)),
    ...lines('same', a.slice(a.length - end)),
  ];
}

const lines = (kind: DiffLine['kind'], texts: string[]): DiffLine[] => texts.map((text) => ({ kind, text }));

function middle(a: string[], b: string[]): DiffLine[] {
  if (a.length * b.length > mostCells) return [...lines('removed', a), ...lines('added', b)];
  const width = b.length + 1;
  // How many lines the rests of both texts have in common, from each pair of lines on.
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] =
        a[i] === b[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
  const out: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: 'same', text: a[i++]! });
      j++;
    } else if (i < a.length && (j === b.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!))
      out.push({ kind: 'removed', text: a[i++]! });
    else out.push({ kind: 'added', text: b[j++]! });
  }
  return out;
}

/** Keeps changed lines and some lines around them. A gap is undefined. */
export function folded(diff: DiffLine[], around = 3): (DiffLine | undefined)[] {
  const near = diff.map((_, i) => diff.slice(Math.max(0, i - around), i + around + 1).some((l) => l.kind !== 'same'));
  return diff.flatMap((line, i) => (near[i] ? [line] : i === 0 || near[i - 1] ? [undefined] : []));
}
