// Opens every page of the built UI in a browser, against the mock server. It takes pictures and fails on problems that
// users would meet: errors on the console, violations of the content security policy, pages wider than the window, and
// serious findings of axe.
//
//   node mock/look.mjs [--out=/tmp/drover-ui] [--browser=/usr/bin/chromium] [--only=cluster]
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const { values: flags } = parseArgs({
  options: {
    out: { type: 'string', default: '/tmp/drover-ui' },
    browser: { type: 'string', default: '/usr/bin/chromium' },
    only: { type: 'string', default: '' },
  },
});
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const servers = { full: 5181, empty: 5182, tenant: 5183 };
const demo = '/ui/clusters/fleet-default/demo';

// What to open, on which mock server, and what to wait for.
const pages = [
  { name: 'sign-in', server: 'full', path: '/ui/', signIn: false, ready: 'text=Where to get a token' },
  { name: 'clusters', server: 'full', path: '/ui/clusters', ready: '.line' },
  { name: 'clusters-filtered', server: 'full', path: '/ui/clusters?q=etcd&state=Failed', ready: '.line' },
  {
    name: 'clusters-none',
    server: 'full',
    path: '/ui/clusters?q=nothing-like-this',
    ready: 'text=No cluster matches',
  },
  { name: 'clusters-empty', server: 'empty', path: '/ui/clusters', ready: 'text=No clusters yet' },
  { name: 'namespaces', server: 'tenant', path: '/ui/clusters', ready: 'text=Choose namespaces' },
  { name: 'cluster', server: 'full', path: demo, ready: 'text=What to do' },
  { name: 'cluster-new', server: 'full', path: '/ui/clusters/fleet-default/dev', ready: '.link-details' },
  { name: 'cluster-machines', server: 'full', path: `${demo}?tab=machines`, ready: '.machine' },
  {
    name: 'cluster-machine',
    server: 'full',
    path: `${demo}?tab=machines`,
    ready: '.machine',
    click: '.machine:has-text("Unhealthy") >> nth=0',
    then: '.failed',
  },
  { name: 'cluster-snapshots', server: 'full', path: `${demo}?tab=snapshots`, ready: '.snapshots' },
  {
    name: 'cluster-restore',
    server: 'full',
    path: `${demo}?tab=snapshots`,
    ready: '.snapshots',
    click: ['.snapshots button >> nth=3', 'text=Data and configuration', 'dialog >> text=Preview'],
    then: 'dialog >> text=to confirm',
  },
  {
    name: 'cluster-rotate',
    server: 'full',
    path: demo,
    ready: 'text=What to do',
    click: ['text=Actions', 'text=Rotate certificates', 'dialog >> text=Preview'],
    then: '.effect-summary',
  },
  {
    name: 'cluster-delete',
    server: 'full',
    path: demo,
    ready: 'text=What to do',
    click: ['text=Actions', 'text=Delete the cluster'],
    then: 'text=Holds the deletion',
  },
  { name: 'cluster-events', server: 'full', path: `${demo}?tab=events`, ready: '.events' },
  { name: 'cluster-log', server: 'full', path: `${demo}?tab=log`, ready: '.log' },
  { name: 'cluster-yaml', server: 'full', path: `${demo}?tab=yaml`, ready: '.cm-line' },
  {
    name: 'cluster-preview',
    server: 'full',
    path: `${demo}?tab=yaml`,
    ready: '.cm-line',
    type: ['.cm-line', '# an edit'],
    click: 'text="Preview"',
    then: '.effect-machines',
  },
  {
    name: 'cluster-problem',
    server: 'full',
    path: `${demo}?tab=yaml`,
    ready: '.cm-line',
    type: ['.cm-line', '\t'],
    click: 'text="Preview"',
    then: '.problems-list',
  },
  {
    name: 'cluster-scale',
    server: 'full',
    path: demo,
    ready: 'text=What to do',
    type: ['text=Actions'],
    click: 'role=menuitem[name="Scale"]',
    then: 'text=Machines of pool',
  },
  {
    name: 'cluster-labels',
    server: 'full',
    path: demo,
    ready: 'text=What to do',
    type: ['text=Actions'],
    click: 'role=menuitem[name="Labels"]',
    then: 'text=Add a label',
  },
  {
    name: 'cluster-version',
    server: 'full',
    path: demo,
    ready: 'text=What to do',
    type: ['text=Actions'],
    click: 'role=menuitem[name="Kubernetes version"]',
    then: 'text=The manifest has',
  },
  {
    name: 'cluster-hosts',
    server: 'full',
    path: '/ui/clusters/fleet-default/edge',
    ready: '.registration-commands .command',
  },
  { name: 'create', server: 'full', path: '/ui/create', ready: '.create-manifest' },
  {
    name: 'create-pools',
    server: 'full',
    path: '/ui/create',
    ready: '.create-manifest',
    select: ['Machines', 'amazonec2'],
    click: 'text=more fields',
    then: 'text=VPC ID',
  },
  {
    name: 'create-problems',
    server: 'full',
    path: '/ui/create',
    ready: '.create-manifest',
    click: 'role=button[name="Preview"]',
    then: 'text=A cluster needs a name',
  },
  {
    name: 'credential',
    server: 'full',
    path: '/ui/administration',
    ready: '.plot canvas',
    click: 'text=New credential',
    then: 'dialog',
  },
  { name: 'cluster-gone', server: 'full', path: '/ui/clusters/fleet-default/gone', ready: 'text=does not exist' },
  { name: 'administration', server: 'full', path: '/ui/administration', ready: '.plot canvas' },
].filter((page) => page.name.includes(flags.only));

const looks = [
  { name: 'light-1280', scheme: 'light', width: 1280, height: 900 },
  { name: 'dark-1280', scheme: 'dark', width: 1280, height: 900 },
  { name: 'light-360', scheme: 'light', width: 360, height: 780 },
  { name: 'dark-360', scheme: 'dark', width: 360, height: 780 },
];

const problems = [];

async function start(args) {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'server.mjs'), ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => child.stdout.once('data', resolve));
  return child;
}

async function open(context, page, origin) {
  const tab = await context.newPage();
  const failed = (text) => problems.push(`${page.name}: ${text}`);
  tab.on('pageerror', (error) => failed(error.message));
  tab.on('console', (message) => {
    // The browser reports every answer that is no success, and the session of a new visitor is one.
    if (message.type() === 'error' && !/401/.test(message.text())) failed(message.text());
  });
  await tab.goto(origin + page.path);
  if (page.signIn !== false) {
    await tab.getByLabel('Token', { exact: true }).fill('token');
    await tab.getByRole('button', { name: 'Sign in' }).click();
  }
  await tab.waitForSelector(page.ready);
  if (page.select) await tab.getByLabel(page.select[0], { exact: true }).selectOption(page.select[1]);
  if (page.type) {
    await tab.click(page.type[0]);
    await tab.keyboard.type(page.type[1] ?? '');
  }
  if (page.click) {
    for (const each of [page.click].flat()) await tab.click(each);
    await tab.waitForSelector(page.then);
  }
  await tab.waitForTimeout(500);
  return tab;
}

async function check(tab, title) {
  // An extension of the browser could do the same; the page's own policy forbids it.
  await tab.evaluate(axe);
  const { violations } = await tab.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
  for (const v of violations) {
    const where = v.nodes
      .slice(0, 3)
      .map((node) => `${node.target} ${node.any[0]?.message ?? ''}`)
      .join('; ');
    if (v.impact === 'serious' || v.impact === 'critical') problems.push(`${title}: ${v.impact}: ${v.id}: ${where}`);
    else console.log(`${title}: ${v.impact}: ${v.id}: ${where}`);
  }
  const extra = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (extra > 0) problems.push(`${title}: the page is ${extra} px wider than the window`);
}

mkdirSync(flags.out, { recursive: true });
const children = await Promise.all([
  start([`--port=${servers.full}`, '--still']),
  start([`--port=${servers.empty}`, '--clusters=0']),
  start([`--port=${servers.tenant}`, '--tenant', '--still']),
]);
const browser = await chromium.launch({ executablePath: flags.browser, args: ['--no-sandbox'] });
try {
  for (const look of looks) {
    for (const page of pages) {
      const context = await browser.newContext({
        colorScheme: look.scheme,
        viewport: { width: look.width, height: look.height },
      });
      const title = `${page.name}-${look.name}`;
      try {
        const tab = await open(context, page, `http://127.0.0.1:${servers[page.server]}`);
        await tab.screenshot({ path: join(flags.out, `${title}.png`), fullPage: page.name !== 'clusters' });
        await check(tab, title);
      } catch (error) {
        problems.push(`${title}: ${error.message}`);
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
  children.forEach((child) => child.kill());
}
problems.forEach((problem) => console.error(problem));
console.log(`${pages.length * looks.length} pictures in ${flags.out}, ${problems.length} problems`);
process.exitCode = problems.length ? 1 : 0;
