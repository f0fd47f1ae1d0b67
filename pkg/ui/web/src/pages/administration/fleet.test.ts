import { expect, test } from 'vitest';
import type { Cluster, Machine } from '../../api/types';
import { binStarts, histogram, quantile, stageDurations, stuckByReason } from './fleet';

const created = '2026-11-22T12:00:00Z';
const waiting: Cluster = {
  namespace: 'a',
  name: 'x',
  state: 'Waiting',
  reason: 'Draining',
  message: 'new',
  since: '2026-11-22T13:00:00Z',
  created,
  stages: [
    { name: 'objects', begin: created, end: '2026-11-22T12:00:03Z' },
    { name: 'join', begin: created },
  ],
};
const machine: Machine = {
  ...waiting,
  cluster: 'x',
  state: 'Deleting',
  message: 'old',
  since: '2026-11-22T11:00:00Z',
  stages: [],
};

test('stuck objects are grouped by reason, with the message of the oldest', () => {
  expect(
    stuckByReason([waiting, { ...waiting, state: 'Ready', reason: undefined }], new Map([['a/x', [machine]]])),
  ).toEqual([{ reason: 'Draining', clusters: 1, machines: 1, oldest: machine.since, message: 'old' }]);
});

test('a message stands for a missing reason', () => {
  expect(stuckByReason([{ ...waiting, reason: undefined }], new Map())).toMatchObject([
    { reason: 'new', clusters: 1 },
  ]);
});

test('only passed stages have a duration', () => {
  expect(stageDurations([waiting], new Map())).toEqual([{ name: 'objects', of: 'clusters', seconds: [3] }]);
});

test('a histogram counts every value, with an empty bin on both sides', () => {
  const { bins, counts } = histogram([2, 2.5, 3, 6]);
  expect(bins.map((bin) => binStarts[bin])).toEqual([1, 2, 3, 5, 7]);
  expect(counts).toEqual([0, 2, 1, 1, 0]);
});

test('a quantile is a value of the list', () => {
  expect([0.5, 0.95, 1].map((share) => quantile([1, 2, 3, 4], share))).toEqual([3, 4, 4]);
});
