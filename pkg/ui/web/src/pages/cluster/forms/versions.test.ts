import { expect, test } from 'vitest';
import type { Cluster } from '../../../api/types';
import { offeredMinors, offeredVersions, problemOf, warningOf } from './versions';

const now = 'v1.35.6+rke2r1';
const releases = { k3s: ['1.35', '1.36'], rke2: ['1.34', '1.35', '1.36', '1.37'] };

const clusters = [
  'v1.36.2+rke2r1',
  'v1.36.10+rke2r1',
  'v1.36.2+rke2r2',
  'v1.37.0+rke2r1',
  'v1.35.5+rke2r1',
  'v1.36.2+k3s1',
  now,
  'v1.36.2+rke2r1',
  undefined,
].map((version) => ({ version }) as Cluster);

test('versions of other clusters are offered if they are a possible next step, the newest first', () => {
  expect(offeredVersions(now, clusters)).toEqual(['v1.36.10+rke2r1', 'v1.36.2+rke2r2', 'v1.36.2+rke2r1']);
});

test('the own minor and the next one are offered', () => {
  expect(offeredMinors(now, releases)).toEqual(['1.35', '1.36']);
  expect(offeredMinors('unknown', releases)).toEqual([]);
});

test.each([
  ['v1.36.2+rke2r1', undefined],
  ['v1.36.2-rc1+rke2r1', undefined],
  ['1.36.2', 'looks like'],
  ['v1.36.2', 'looks like'],
  ['v1.36.2+k3s1', 'The cluster is one of rke2'],
  ['v1.39.0+rke2r1', '1.34, 1.35, 1.36, 1.37'],
])('the check of %s', (version, want) => {
  const got = problemOf(version, now, releases);
  if (want) expect(got).toContain(want);
  else expect(got).toBeUndefined();
});

test('without release data, each minor is possible', () => {
  expect(problemOf('v1.39.0+rke2r1', now)).toBeUndefined();
});

test.each([
  ['v1.36.0+rke2r1', undefined],
  ['v1.34.0+rke2r1', 'no downgrade'],
  ['v1.37.0+rke2r1', 'Upgrade to 1.36 first'],
])('the warning about %s', (version, want) => {
  const got = warningOf(version, now);
  if (want) expect(got).toContain(want);
  else expect(got).toBeUndefined();
});
