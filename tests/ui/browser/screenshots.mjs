// Writes a picture of each page in both schemes into the directory UI_PICTURES. The clusters are made up.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { env, flawless, open, see, signIn, test } from './harness.mjs';

const mock = join(import.meta.dirname, '../../../pkg/ui/web/mock/server.mjs');
const demo = '/ui/clusters/fleet-default/demo';

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
  { name: 'events', path: `${demo}?tab=events`, ready: '.events' },
  { name: 'log', path: `${demo}?tab=log`, ready: '.log' },
  { name: 'yaml', path: `${demo}?tab=yaml`, ready: '.cm-line' },
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
