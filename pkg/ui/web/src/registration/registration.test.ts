import { expect, test } from 'vitest';
import { isOfHosts, missingRoles, noOptions, optionOf, queryOf } from './registration';

test('a cluster without pools is one of existing hosts, unless it is imported', () => {
  expect(isOfHosts({ pools: [] })).toBe(true);
  expect(isOfHosts({ imported: true })).toBe(false);
  expect(isOfHosts({ pools: [{ name: 'a', roles: null, wanted: 1 }] })).toBe(false);
});

test('a host that leaves has no role', () => {
  expect(missingRoles([])).toEqual(['etcd', 'controlplane', 'worker']);
  expect(
    missingRoles([
      { state: 'Running', roles: ['etcd', 'controlplane'] },
      { state: 'Deleting', roles: ['worker'] },
    ]),
  ).toEqual(['worker']);
});

test('a command of a complete cluster is for a worker', () => {
  expect(noOptions([]).roles).toEqual(['worker']);
});

test('the query has roles in one order, and each label and taint', () => {
  const options = {
    roles: ['worker', 'etcd'] as ('worker' | 'etcd')[],
    labels: 'site=north, rack=7',
    taints: 'gpu=yes:NoSchedule',
    address: ' 10.0.0.1 ',
    internalAddress: '',
    nodeName: 'edge-1',
  };
  expect(new URLSearchParams(queryOf(options)).toString()).toBe(
    'roles=etcd%2Cworker&labels=site%3Dnorth&labels=rack%3D7&taints=gpu%3Dyes%3ANoSchedule&address=10.0.0.1&nodeName=edge-1',
  );
});

test('a problem names its option', () => {
  expect([optionOf('labels[0]'), optionOf('nodeName'), optionOf(undefined)]).toEqual(['labels', 'nodeName', '']);
});
