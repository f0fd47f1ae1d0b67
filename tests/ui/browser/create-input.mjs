// Makes mistakes in the form of a new cluster, then creates clusters of existing hosts.
import { paste } from './change.mjs';
import { env, equal, flawless, open, see, signIn, test, truth, until } from './harness.mjs';

const namespace = env('NAMESPACE');
const form = `${env('URL')}/ui/create?namespace=${namespace}`;
const box = (page, name) => page.getByRole('textbox', { name, exact: true });
const preview = (page) => page.getByRole('button', { name: 'Preview', exact: true });
const create = (page) => page.getByRole('button', { name: 'Create', exact: true });
const text = (page) => page.locator('.cm-content').innerText();

/** Waits until a field has an error with a text. */
const wrong = (page, name, message) =>
  until(`${name} says "${message}"`, async () => {
    const field = page.locator(`[name="${name}"]`);
    if ((await field.getAttribute('aria-invalid')) !== 'true') return 'the field is not invalid';
    const id = (await field.getAttribute('aria-describedby'))?.split(' ').find((part) => part.endsWith('-error'));
    const said = id ? await page.locator(`[id="${id}"]`).innerText() : '';
    return said.includes(message) ? '' : `it says "${said}"`;
  });

/** Fills a form without mistakes, and previews it. */
async function complete(page, name) {
  await box(page, 'Name').fill(name);
  await page.getByLabel('Machines', { exact: true }).first().selectOption('');
  await page.getByLabel('Distribution').selectOption('k3s');
  await page.getByLabel(/^Version/).fill(env('VERSION'));
  await preview(page).click();
  await see(page.getByLabel('Effect of the edit'));
  await until('Create is enabled', async () => ((await create(page).isEnabled()) ? '' : 'it is disabled'));
}

/** Begins with a form that can be created, so that the mistakes alone disable Create. */
async function mistakes(page) {
  await see(page.locator('.cm-content'));
  await complete(page, 'no-mistake');
  await box(page, 'Name').fill('taken');
  await page.getByLabel(/^Version/).fill('v9.99.0+k3s1');
  await page.getByLabel('Distribution').focus();
  await wrong(page, 'name', 'has a cluster with this name');
  await wrong(page, 'version', 'unknown');
  await box(page, 'Name').fill('Bad_Name');
  await wrong(page, 'name', 'lower');
  await page.getByLabel('Machines', { exact: true }).first().selectOption('sim');
  await page.getByRole('button', { name: 'Add a pool' }).click();
  await box(page, 'Name of the pool').nth(1).fill('servers');
  await box(page, 'Machines').nth(1).fill('many');
  await preview(page).click();
  await see(page.getByText('Another pool has this name.'));
  await see(page.getByText('The size must be a whole number from 0.'));
  equal('a form with mistakes can be created', await create(page).isEnabled(), false);
}

async function fields(page) {
  await box(page, 'Name of the pool').nth(1).fill('workers');
  await box(page, 'Machines').nth(1).fill('2');
  await page.getByRole('button', { name: /fields of/ }).first().click();
  await box(page, 'Size').fill('large');
  await page.getByLabel('Fast', { exact: true }).selectOption('true');
  await until('the manifest has the fields of the driver', async () => {
    const manifest = await text(page);
    return ['size: large', 'fast: true', 'quantity: 2'].filter((part) => !manifest.includes(part)).join(', ');
  });
}

/** A driver whose fields are unknown has fields for names and values. */
async function unknownDriver(page) {
  const machines = page.getByLabel('Machines', { exact: true }).first();
  await machines.selectOption('bare');
  await page.getByRole('button', { name: 'Add a field' }).first().click();
  await page.getByLabel('Name of field 1').fill('flavor');
  await page.getByLabel('Value of field 1').fill('big');
  await until('the manifest has the field', async () => {
    const manifest = await text(page);
    return ['kind: BareConfig', 'flavor: big'].filter((part) => !manifest.includes(part)).join(', ');
  });
  await wrong(page, 'driver', 'bare');
  await machines.selectOption('sim');
}

async function byHand(page) {
  await box(page, 'Name').fill('by-hand');
  await page.getByLabel(/^Version/).fill(env('VERSION'));
  await until('the manifest has the name', async () =>
    (await text(page)).includes('name: by-hand\n') ? '' : await text(page),
  );
  await page.getByRole('button', { name: 'Edit by hand' }).click();
  equal('the form during an edit by hand', await box(page, 'Name').isEnabled(), false);
  await paste(
    page,
    `apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata:\n  name: by-hand\n  namespace: ${namespace}\n` +
      `spec:\n  kubernetesVersion: ${env('VERSION')}\n  rkeConfig: {}\n  noSuchField: 1\n`,
  );
  await preview(page).click();
  const line = await see(page.getByRole('button', { name: 'Line 9:' }));
  await line.click();
  truth('the line is in the editor', await page.evaluate(() => !!document.activeElement?.closest('.cm-editor')));
  equal('a manifest with a mistake can be created', await create(page).isEnabled(), false);
  await paste(page, 'kind: Cluster\nmetadata: {name: by-hand\n');
  await preview(page).click();
  await see(page.getByRole('button', { name: /^Line \d+:/ }));
  await page.getByRole('button', { name: 'Use the form again' }).first().click();
  await until('the text of the form is back', async () =>
    (await text(page)).includes('SimConfig') ? '' : await text(page),
  );
}

async function unsaved(page) {
  await page.getByRole('link', { name: 'Administration' }).click();
  await see(page.getByRole('dialog', { name: 'Discard your edit?' }));
  await page.getByRole('button', { name: 'Stay on the page' }).click();
  equal('the name after the question', await box(page, 'Name').inputValue(), 'by-hand');
}

async function make(page, name) {
  await complete(page, name);
  await create(page).click();
  await page.waitForURL(`**/ui/clusters/${namespace}/${name}`);
}

async function hosts(page) {
  const card = page.getByRole('region', { name: 'Register a host' });
  const command = () => card.locator('.command').first().innerText();
  const says = (part) =>
    until(`the command has ${part}`, async () => ((await command()).includes(part) ? '' : await command()));
  await see(card.locator('.command'), 60_000);
  await says('--etcd');
  await says('--worker');
  await card.getByLabel('Worker').uncheck();
  await until('the command has no role of a worker', async () =>
    (await command()).includes('--worker') ? await command() : '',
  );
  await card.getByText('Name, labels, taints and addresses').click();
  await card.getByLabel('Labels').fill('site=north rack=7');
  await says('rack=7');
  await card.getByLabel('Labels').fill('site=/north/');
  await until('the label is refused', async () =>
    (await card.getByLabel('Labels').getAttribute('aria-invalid')) === 'true' ? '' : 'the field is valid',
  );
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: 'Register a host' }).click();
  const dialog = await see(page.getByRole('dialog', { name: 'Register a host in edge' }));
  await see(dialog.locator('.command'));
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
}

async function choose(page) {
  await (await see(page.getByLabel('Namespaces', { exact: true }))).fill(namespace);
  await page.getByRole('button', { name: 'Show clusters' }).click();
}

async function asEditor(browser) {
  const page = await open(browser);
  await page.goto(`${env('URL')}/ui/clusters`);
  await signIn(page, env('EDITOR'));
  await choose(page);
  await page.getByRole('link', { name: 'Create', exact: true }).click();
  await see(page.getByText('You may not list the node drivers.'));
  await make(page, 'of-editor');
  await flawless(page);
}

async function asViewer(browser) {
  const page = await open(browser);
  await page.goto(`${env('URL')}/ui/clusters`);
  await signIn(page, env('VIEWER'));
  await choose(page);
  await see(page.getByRole('link', { name: 'taken', exact: true }));
  await page.goto(form);
  await see(box(page, 'Name'));
  await box(page, 'Name').fill('mine');
  await page.getByLabel(/^Version/).fill(env('VERSION'));
  await preview(page).click();
  await wrong(page, 'namespace', 'You may not create clusters');
  equal('a viewer can create', await create(page).isEnabled(), false);
  await page.evaluate(() => (window.onbeforeunload = null));
  await flawless(page);
}

await test(async (browser) => {
  const page = await open(browser);
  await page.goto(form);
  await signIn(page, env('TOKEN'));
  await mistakes(page);
  await fields(page);
  await unknownDriver(page);
  await byHand(page);
  await unsaved(page);
  await make(page, 'edge');
  await hosts(page);
  await flawless(page);
  await asEditor(browser);
  await asViewer(browser);
});
