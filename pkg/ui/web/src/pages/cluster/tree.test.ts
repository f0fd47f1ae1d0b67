import { expect, test } from 'vitest';
import type { Branch, Link, LinkState } from '../../api/types';
import { openPaths, worst } from './tree';

const link = (name: string, state: LinkState): Link => ({ name, state, object: name });
const tree = (...pools: Branch[]): Branch => ({ title: 'top', links: [link('leader', 'OK')], branches: pools });
const pool = (title: string, ...links: Link[]): Branch => ({ title, links });

test.each<[string, Branch, string[]]>([
  [
    'the first broken link is open, with the branches above it',
    tree(pool('a', link('job', 'Waiting')), pool('b', link('pool', 'OK'), link('host', 'Broken'))),
    ['/top', '/top/b', '/top/b/host'],
  ],
  [
    'without a broken link, the first that waits is open',
    tree(pool('a', link('job', 'Behind')), pool('b', link('agent', 'Waiting'))),
    ['/top', '/top/b', '/top/b/agent'],
  ],
  [
    'a link behind a link that waits stays closed',
    tree(pool('a', link('plan', 'Waiting'), link('agent', 'Broken'))),
    ['/top', '/top/a', '/top/a/plan'],
  ],
  ['nothing is open when everything works', tree(pool('a', link('job', 'OK'))), []],
])('%s', (_, report, want) => {
  expect([...openPaths(report)]).toEqual(want);
});

test('a branch has the worst state below it', () => {
  expect(worst(tree(pool('a', link('job', 'Unknown')), pool('b', link('host', 'Waiting'))))).toBe('Waiting');
});
