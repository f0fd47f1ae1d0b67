import { expect, test } from 'vitest';
import type { Cluster, Machine } from '../../api/types';
import { comparers, countStates, filterRows, makeRows } from './rows';
import { readClustersSearch } from './search';

const created = '2026-11-22T12:00:00Z';
const clusters: Cluster[] = [
  { namespace: 'shop', name: 'web-10', state: 'Ready', version: 'v1.36.2+k3s1', created },
  { namespace: 'shop', name: 'web-9', state: 'Failed', reason: 'EtcdMembersUnhealthy', message: 'no quorum', created },
  {
    namespace: 'lab',
    name: 'demo',
    state: 'Waiting',
    version: 'v1.36.2+k3s1',
    created,
    pools: [{ name: 'all', roles: ['worker'], wanted: 3 }],
  },
];
const machine: Machine = { namespace: 'lab', name: 'demo-1', cluster: 'demo', state: 'Running', created };
const rows = makeRows(clusters, new Map([['lab/demo', [machine, { ...machine, name: 'demo-2', state: 'Joining' }]]]));
const namesOf = (list: typeof rows) => list.map((row) => row.cluster.name);

test('a row counts running machines, and the machines that pools request', () => {
  expect(rows.map(({ ready, wanted }) => `${ready}/${wanted}`)).toEqual(['0/0', '0/0', '1/3']);
});

test.each([
  ['every word of the search must match', { q: 'SHOP quorum' }, ['web-9']],
  ['the search finds reasons', { q: 'etcdmembers' }, ['web-9']],
  ['filters add up', { version: 'v1.36.2+k3s1', namespace: 'lab' }, ['demo']],
  ['the state is counted before it filters', { state: 'Ready' as const }, ['web-10', 'web-9', 'demo']],
])('%s', (_, search, want) => {
  expect(namesOf(filterRows(rows, search))).toEqual(want);
});

test('states are counted', () => {
  expect(countStates(rows).get('Failed')).toBe(1);
});

test('the most urgent state is first, and numbers in names count as numbers', () => {
  expect(namesOf([...rows].sort(comparers.state))).toEqual(['web-9', 'demo', 'web-10']);
  expect(namesOf([...rows].sort(comparers.name))).toEqual(['demo', 'web-9', 'web-10']);
});

test('a link with unknown values opens the page without them', () => {
  expect(readClustersSearch({ q: 7, state: 'Happy', sort: '-colour', namespace: '' })).toEqual({ q: '7' });
  expect(readClustersSearch({ sort: '-since', state: 'Paused' })).toEqual({ sort: '-since', state: 'Paused' });
});
