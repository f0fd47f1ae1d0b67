import { expect, test } from 'vitest';
import type { Cluster } from '../../api/types';
import { rowToShow } from './kept';
import { forgetDeletion, noteDeletion } from './operate/requests';

const page = { namespace: 'fleet', name: 'demo' };
const rowOf = (name: string, state = 'Ready') => ({ namespace: 'fleet', name, state }) as Cluster;

test('the page shows the newest row', () => {
  const row = rowOf('demo', 'Updating');
  expect(rowToShow(row, rowOf('demo'), page, true)).toBe(row);
});

test.each([
  ['typed text keeps the last row', 'demo', true, 'demo'],
  ['without typed text, the row goes', 'demo', false, undefined],
  ['the row of another page goes', 'other', true, undefined],
])('%s', (_, last, isHeld, want) => {
  expect(rowToShow(undefined, rowOf(last), page, isHeld)?.name).toBe(want);
});

test('a deletion on the page needs no typed text', () => {
  noteDeletion(page);
  expect(rowToShow(undefined, rowOf('demo'), page, true)).toBeUndefined();
  forgetDeletion(page);
});
