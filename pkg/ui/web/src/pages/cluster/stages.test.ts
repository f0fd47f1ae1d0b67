import { expect, test } from 'vitest';
import type { Cluster, Machine } from '../../api/types';
import { lanesOf, ticks } from './stages';

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 22, 12) + seconds * 1000).toISOString();
const row = { namespace: 'a', state: 'Ready' as const };
const machine = (name: string, begin: number): Machine => ({
  ...row,
  name,
  cluster: 'demo',
  created: at(begin),
  stages: [{ name: 'infrastructure', begin: at(begin), end: at(begin + 30) }],
});

test('lanes count seconds from the creation, and leave out machines of later days', () => {
  const cluster: Cluster = {
    ...row,
    name: 'demo',
    created: at(0),
    stages: [
      { name: 'objects', begin: at(0), end: at(2) },
      { name: 'join', begin: at(2), end: at(90) },
    ],
  };
  const lanes = lanesOf(cluster, [machine('demo-late', 86_400), machine('demo-w', 5)], 0);
  expect(lanes.map((lane) => [lane.label, ...lane.bars.map((bar) => `${bar.begin}-${bar.end}`)])).toEqual([
    ['Cluster', '0-2', '2-90'],
    ['w', '5-35'],
  ]);
});

test('a running stage ends now', () => {
  const cluster: Cluster = { ...row, name: 'demo', created: at(0), stages: [{ name: 'bootstrap', begin: at(1) }] };
  expect(lanesOf(cluster, [], Date.parse(at(61)))[0]?.bars).toEqual([
    { name: 'bootstrap', begin: 1, end: 61, running: true },
  ]);
});

test('the scale has round positions, at most six', () => {
  expect(ticks(90)).toEqual([0, 30, 60, 90]);
  expect(ticks(4)).toEqual([0, 1, 2, 3, 4]);
  expect(ticks(10 * 86_400)).toHaveLength(6);
});
