import type { Branch, Link, LinkState } from '../../api/types';

export const stops = (link: Link) => link.state === 'Broken' || link.state === 'Waiting' || link.state === 'Behind';

const severity: LinkState[] = ['OK', 'Unknown', 'Behind', 'Waiting', 'Broken'];

/** The worst state in a branch and the branches below it. */
export function worst(branch: Branch): LinkState {
  const states = [...(branch.links ?? []).map((l) => l.state), ...(branch.branches ?? []).map(worst)];
  return states.reduce((a, b) => (severity.indexOf(b) > severity.indexOf(a) ? b : a), 'OK' as LinkState);
}

/** The names of a branch and of a link in it. They identify it while the report changes. */
export const pathOf = (parent: string, part: string) => `${parent}/${part}`;

/**
 * The paths that are open at first: those to the first broken link, or else to the first link that waits. Later links
 * depend on it.
 */
export function openPaths(tree: Branch): Set<string> {
  const found = find(tree, '', 'Broken') ?? find(tree, '', 'Waiting');
  return new Set(found);
}

function find(branch: Branch, parent: string, state: LinkState): string[] | undefined {
  const path = pathOf(parent, branch.title);
  const link = (branch.links ?? []).find(stops);
  if (link) return link.state === state ? [path, pathOf(path, link.name)] : undefined;
  for (const below of branch.branches ?? []) {
    const found = find(below, path, state);
    if (found) return [path, ...found];
  }
  return undefined;
}
