import { expect, test } from 'vitest';
import { diffLines, folded } from './diff';

const signs = { same: ' ', removed: '-', added: '+' };
const compare = (before: string, after: string) =>
  diffLines(before.replaceAll(' ', '\n'), after.replaceAll(' ', '\n')).map(({ kind, text }) => signs[kind] + text);

test.each([
  ['equal texts', 'a b', 'a b', [' a', ' b']],
  ['a changed line', 'a b c', 'a x c', [' a', '-b', '+x', ' c']],
  ['an added line', 'a c', 'a b c', [' a', '+b', ' c']],
  ['a removed line', 'a b c', 'a c', [' a', '-b', ' c']],
  ['two places', 'a b c d e', 'x b c d y', ['-a', '+x', ' b', ' c', ' d', '-e', '+y']],
  ['a repeated line', 'a a', 'a a a', [' a', ' a', '+a']],
])('%s', (_, before, after, want) => {
  expect(compare(before, after)).toEqual(want);
});

test('lines far from a change are a gap', () => {
  const diff = diffLines('1\n2\n3\n4\n5\n6\n7\n8\n9', '1\n2\n3\n4\nx\n6\n7\n8\n9');
  expect(folded(diff, 1).map((line) => line?.text ?? '…')).toEqual(['…', '4', '5', 'x', '6', '…']);
});
