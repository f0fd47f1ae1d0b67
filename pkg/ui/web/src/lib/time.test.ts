import { expect, test } from 'vitest';
import { formatAge, formatDuration } from './time';

test.each([
  [0, '0s'],
  [59.6, '1m'],
  [112, '1m52s'],
  [600, '10m'],
  [7199, '119m'],
  [7200, '2h'],
  [172_800, '2d'],
])('%d seconds are %s', (seconds, want) => {
  expect(formatDuration(seconds)).toBe(want);
});

test('an age has no seconds after a minute, and is never negative', () => {
  const now = Date.parse('2026-11-22T12:05:30Z');
  expect(formatAge('2026-11-22T12:00:00Z', now)).toBe('5m');
  expect(formatAge('2026-11-22T12:06:00Z', now)).toBe('0s');
});
