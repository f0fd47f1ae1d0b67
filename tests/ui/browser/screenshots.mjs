// Writes a picture of each page in both schemes into the directory UI_PICTURES. The clusters are made up.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { env, flawless, open, see, signIn, test } from './harness.mjs';

const mock = join(import.meta.dirname, '../../../pkg/ui/web/mock/server.mjs');
const demo = '/ui/clusters/fleet-default/demo';

/** A cluster that is ready. */
const ready = '/ui/clusters/fleet-default/falcon-lab-013';

/** Opens the dialog of an action. */
async function act(page, name) {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name, exact: true }).click();
  await see(page.getByRole('dialog'));
}

/** Previews the change of a dialog. */
async function preview(page) {
  await page.getByRole('dialog').getByRole('button', { name: 'Preview', exact: true }).click();
  await see(page.locator('.effect-summary'));
}

const pages = [
  { name: 'clusters', path: '/ui/clusters?sort=name', ready: '.line' },
  { name: 'cluster', path: demo, ready: 'text=What to do' },
  { name: 'progress', path: '/ui/clusters/fleet-default/dev', ready: '.link-details' },
  {
    name: 'machine',
    path: `${demo}?tab=machines`,
    ready: '.machine',
    then: async (page) => {
      await page.locator('.machine', { hasText: 'Unhealthy' }).first().click();
      await see(page.locator('.failed'));
    },
  },
  {
    name: 'create',
    path: '/ui/create?namespace=fleet-default',
    ready: '.create-manifest .cm-line',
    then: async (page) => {
      await page.getByRole('textbox', { name: 'Name', exact: true }).fill('shop');
      await page.getByLabel('Machines', { exact: true }).first().selectOption('amazonec2');
      await page.getByLabel('Cloud credential').selectOption('cattle-global-data:cc-aws01');
      await page.getByRole('textbox', { name: 'Machines', exact: true }).fill('3');
      await page.getByRole('textbox', { name: 'Region' }).fill('eu-central-1');
      await page.getByRole('textbox', { name: 'VPC ID' }).fill('vpc-0a1b2c3d');
      await page.getByLabel('Network').selectOption('cilium');
      await see(page.locator('.create-manifest').getByText('vpc-0a1b2c3d'));
      await page.getByRole('button', { name: 'Preview', exact: true }).click();
      await see(page.locator('.effect-summary'));
    },
  },
  { name: 'hosts', path: '/ui/clusters/fleet-default/edge', ready: '.registration-commands .command' },
  {
    name: 'scale',
    path: ready,
    ready: 'text=Every check works',
    then: async (page) => {
      await act(page, 'Scale');
      await page.getByRole('dialog').getByLabel('Machines of pool workers').fill('6');
      await preview(page);
    },
  },
  {
    name: 'upgrade',
    path: ready,
    ready: 'text=Every check works',
    then: async (page) => {
      await act(page, 'Kubernetes version');
      await page.getByRole('dialog').getByLabel('Version').fill('v1.36.2+rke2r1');
      await preview(page);
    },
  },
  {
    name: 'edit',
    path: `${ready}?tab=yaml`,
    ready: '.cm-line',
    then: async (page) => {
      await page.locator('.cm-line', { hasText: 'disable-kube-proxy' }).click();
      await page.keyboard.press('End');
      await page.keyboard.type('\nprofile: cis');
      await page.getByRole('button', { name: 'Preview', exact: true }).click();
      await see(page.locator('.effect-summary'));
    },
  },
  { name: 'snapshots', path: `${ready}?tab=snapshots`, ready: '.snapshots' },
  {
    name: 'restore',
    path: `${ready}?tab=snapshots`,
    ready: '.snapshots',
    then: async (page) => {
      await page.getByRole('button', { name: /^Restore / }).first().click();
      await see(page.getByText('Version after'));
    },
  },
  {
    name: 'delete',
    path: ready,
    ready: 'text=Every check works',
    then: async (page) => {
      await act(page, 'Delete the cluster');
      await see(page.getByLabel(/to confirm/));
    },
  },
  {
    name: 'credential',
    path: '/ui/administration',
    ready: '.plot canvas',
    then: async (page) => {
      await page.getByRole('button', { name: 'New credential' }).click();
      await see(page.getByRole('button', { name: 'Create the credential' }));
    },
  },
  { name: 'events', path: `${demo}?tab=events`, ready: '.events' },
  { name: 'log', path: `${demo}?tab=log`, ready: '.log' },
  { name: 'administration', path: '/ui/administration', ready: '.plot canvas' },
];

/** Starts the mock server and returns its address. */
async function start() {
  const child = spawn(process.execPath, [mock, '--port=0', '--still'], { stdio: ['ignore', 'pipe', 'inherit'] });
  process.once('exit', () => child.kill());
  for await (const line of createInterface({ input: child.stdout })) return new URL(line).origin;
  throw new Error('the mock server has ended');
}

async function save(page, name, scheme) {
  // Pictures that load and fonts must be there, and the pointer must be over nothing.
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.fonts.ready);
  await page.locator('[aria-busy="true"]').first().waitFor({ state: 'detached' });
  await page.screenshot({ path: join(env('PICTURES'), `${name}-${scheme}.png`), animations: 'disabled' });
}

await test(async (browser) => {
  const origin = await start();
  for (const scheme of ['light', 'dark']) {
    const page = await open(browser, { colorScheme: scheme });
    await page.goto(`${origin}/ui/`);
    await see(page.getByText('Where to get a token'));
    await save(page, 'sign-in', scheme);
    await signIn(page, 'token');
    await see(page.locator('.line'));
    for (const { name, path, ready, then } of pages) {
      await page.goto(origin + path);
      await see(page.locator(ready));
      if (then) await then(page);
      await save(page, name, scheme);
    }
    await flawless(page);
  }
});
