import { expect, test } from 'vitest';
import { changedMachines, existsOf, outdatedOf, summaryOf } from './effects';

const report = {
  cluster: 'a/b',
  result: 'Replace',
  machines: [
    { name: 'w1', class: 'Replace', stage: 2 },
    { name: 's1', class: 'Restart', stage: 1 },
    { name: 's2', class: 'Restart', stage: 1 },
    { name: 'w2', class: 'None' },
    { name: 'w3', class: 'None', problem: 'no plan can be made' },
  ],
};

test('a summary counts machines, and begins with the strongest effect', () => {
  expect(summaryOf(report)).toEqual([
    '1 machine: replaced by a new machine',
    '2 machines: Kubernetes restarts on the node',
    '2 machines: no change',
  ]);
  expect(summaryOf({ cluster: 'a/b', result: 'None' })).toEqual([]);
});

test('machines that change or have a problem are listed in their order', () => {
  expect(changedMachines(report).map((machine) => machine.name)).toEqual(['w3', 's1', 's2', 'w1']);
});

test('a creation is refused if the preview has seen a cluster', () => {
  expect(existsOf({ seen: '7' })).toContain('exists');
  expect(existsOf({ seen: '' })).toBeUndefined();
});

test.each([
  ['the same cluster', { seen: '7' }, false],
  ['a cluster that changed', { seen: '8' }, true],
  ['no cluster', { seen: '' }, true],
  ['nothing because of early problems', { seen: '', problems: [{ message: 'no YAML' }] }, false],
])('a preview that saw %s', (_, answer, isOutdated) => {
  expect(outdatedOf(answer, '7') !== undefined).toBe(isOutdated);
});
