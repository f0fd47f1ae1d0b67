// All pages of the UI that a user reaches, for one cluster.
import { see } from './harness.mjs';

/** Each page: its name, its path, and what is visible when it is complete. */
export const pagesOf = (namespace, name) => {
  const cluster = `/ui/clusters/${namespace}/${name}`;
  return [
    {
      name: 'clusters',
      path: `/ui/clusters?namespace=${namespace}`,
      ready: (page) => page.getByRole('link', { name, exact: true }),
    },
    {
      name: 'no match',
      path: '/ui/clusters?q=nothing-like-this',
      ready: (page) => page.getByText('No cluster matches'),
    },
    { name: 'overview', path: cluster, ready: (page) => page.getByRole('heading', { name: 'Diagnosis' }) },
    {
      name: 'machines',
      path: `${cluster}?tab=machines`,
      ready: (page) => page.getByRole('heading', { name: /^Pool / }),
      then: async (page) => {
        await page.locator('.machine').first().click();
        await see(page.getByRole('heading', { name: 'Plan' }));
      },
    },
    {
      name: 'snapshots',
      path: `${cluster}?tab=snapshots`,
      ready: (page) => page.locator('.snapshots, .empty'),
    },
    { name: 'events', path: `${cluster}?tab=events`, ready: (page) => page.locator('.events, .empty') },
    { name: 'log', path: `${cluster}?tab=log`, ready: (page) => page.locator('.log, .empty') },
    { name: 'yaml', path: `${cluster}?tab=yaml`, ready: (page) => page.getByLabel('Manifest') },
    { name: 'administration', path: '/ui/administration', ready: (page) => page.getByText('Node drivers') },
    {
      name: 'create',
      path: `/ui/create?namespace=${namespace}`,
      ready: (page) => page.locator('.create-manifest .cm-line').filter({ hasText: 'kind: Cluster' }),
      then: async (page) => {
        await page.getByRole('button', { name: 'Preview', exact: true }).click();
        await see(page.getByText('A cluster needs a name.'));
      },
    },
    {
      name: 'new credential',
      path: '/ui/administration',
      ready: (page) => page.getByRole('button', { name: 'New credential' }),
      then: async (page) => {
        await page.getByRole('button', { name: 'New credential' }).click();
        await see(page.getByRole('button', { name: 'Create the credential' }));
      },
    },
    {
      name: 'no such cluster',
      path: `/ui/clusters/${namespace}/gone`,
      ready: (page) => page.getByText('does not exist, or you may not see it'),
    },
    { name: 'no such page', path: '/ui/nowhere', ready: (page) => page.getByText('This page does not exist') },
  ];
};

export async function visit(page, origin, { path, ready, then }) {
  await page.goto(origin + path);
  await see(ready(page));
  if (then) await then(page);
  // Answers that arrive later change the page.
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
}
