import { expect, test } from 'vitest';
import { missingFor, sizeText, toneOfSnapshot } from './snapshots';
import type { Snapshot } from './types';

const snapshot: Snapshot = { name: 'a', place: 'node n1', state: 'Successful', hasConfig: false };

test.each([
  [undefined, 'unknown'],
  [0, 'unknown'],
  [4096, '0.1 MiB'],
  [13_107_200, '12.5 MiB'],
  [3_435_973_837, '3.2 GiB'],
])('%s bytes are %s', (bytes, text) => {
  expect(sizeText(bytes)).toBe(text);
});

test('data can always be restored, and the configuration only if the snapshot holds it', () => {
  expect(missingFor('none', snapshot)).toBe('');
  expect(missingFor('kubernetesVersion', snapshot)).toContain('version');
  expect(missingFor('kubernetesVersion', { ...snapshot, version: 'v1.36.2+k3s1' })).toBe('');
  expect(missingFor('all', snapshot)).toContain('configuration');
  expect(missingFor('all', { ...snapshot, hasConfig: true })).toBe('');
});

test('an unknown state has no colour of its own', () => {
  expect(toneOfSnapshot(snapshot)).toBe('good');
  expect(toneOfSnapshot({ ...snapshot, state: 'Unknown' })).toBe('off');
});
