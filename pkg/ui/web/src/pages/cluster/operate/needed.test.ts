import { expect, test } from 'vitest';
import { isConfirmed, needed } from './needed';

test('a text waits for the answer that it needs', () => {
  expect(() => needed({ error: null }, 'Reading …')).toThrow('Reading …');
});

test('an error leaves no text', () => {
  expect(() => needed({ error: new Error('refused') }, 'Reading …')).toThrow('without the answer');
});

test('an earlier answer stays good', () => {
  expect(needed({ data: 3, error: new Error('refused') }, 'Reading …')).toBe(3);
});

const look = { typed: 'demo', name: 'demo', isFetching: false, lookError: null };

test.each([
  ['the typed name', {}, true],
  ['another name', { typed: 'demo2' }, false],
  ['a look that runs', { isFetching: true }, false],
  ['a look that failed', { lookError: new Error('no answer') }, false],
  ['a deletion that failed', { deletionError: new Error('changed') }, false],
])('a deletion after %s', (_, change, want) => {
  expect(isConfirmed({ ...look, ...change })).toBe(want);
});
