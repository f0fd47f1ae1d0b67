// Fills the form of a new cluster, with a new credential, and watches the cluster become Ready on a real machine.
import { env, equal, flawless, open, see, signIn, test, truth, until } from './harness.mjs';

const minutes = 60_000;
const secret = env('LAB_TOKEN');
const box = (within, name) => within.getByRole('textbox', { name, exact: true });
const manifest = (page) => page.locator('.create-manifest').innerText();

/** Records the answers of the server that contain the secret value. */
function watchAnswers(page) {
  const found = [];
  page.on('response', async (response) => {
    if (!response.url().includes('/ui/api/') || response.url().endsWith('/stream')) return;
    // A body is gone when its page is.
    const body = await response.text().catch(() => '');
    if (body.includes(secret)) found.push(response.url());
  });
  return found;
}

async function makeCredential(page) {
  await page.getByRole('button', { name: 'New credential' }).click();
  const dialog = page.getByRole('dialog', { name: 'New cloud credential' });
  await see(dialog);
  await dialog.getByRole('button', { name: 'Create the credential' }).click();
  await see(dialog.getByText('The driver requires this value.'));
  await box(dialog, 'Name').fill('Lab of the page');
  equal('the namespace of the credential', await box(dialog, 'Namespace').inputValue(), env('NAMESPACE'));
  await box(dialog, 'URL').fill(env('LAB_URL'));
  await box(dialog, 'CA').fill(env('LAB_CA'));
  const token = dialog.getByLabel(/^Token/);
  equal('the type of a secret field', await token.getAttribute('type'), 'password');
  await token.fill(secret);
  await dialog.getByRole('button', { name: 'Create the credential' }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** Replaces the values of the credential by the same ones. */
async function replaceValues(page) {
  await page.getByRole('link', { name: 'Administration' }).click();
  await page.getByRole('button', { name: 'Replace the values of Lab of the page' }).click();
  const dialog = await see(page.getByRole('dialog', { name: 'Replace the values of Lab of the page' }));
  equal('the field of a stored value', await dialog.getByLabel(/^Token/).inputValue(), '');
  await box(dialog, 'URL').fill(env('LAB_URL'));
  await box(dialog, 'CA').fill(env('LAB_CA'));
  await dialog.getByLabel(/^Token/).fill(secret);
  await dialog.getByRole('button', { name: 'Replace the values' }).click();
  await dialog.waitFor({ state: 'detached' });
}

async function fill(page) {
  await box(page, 'Name').fill('created');
  await page.getByLabel('Machines', { exact: true }).first().selectOption('nspawn');
  await makeCredential(page);
  await until('the form has the new credential', async () =>
    (await page.getByLabel('Cloud credential').inputValue()) ? '' : 'none is selected',
  );
  await page.getByLabel('Distribution').selectOption('k3s');
  await page.getByLabel(/^Version/).fill(env('VERSION'));
  await page.getByLabel('Name of the pool').fill('pool1');
  await page.getByRole('button', { name: /fields of/ }).click();
  await box(page, 'Tag').fill('from-the-page');
}

await test(async (browser) => {
  const page = await open(browser);
  const leaks = watchAnswers(page);
  await page.goto(`${env('URL')}/ui/clusters`);
  await signIn(page, env('TOKEN'));
  await page.getByRole('link', { name: 'Create', exact: true }).click();
  await page.evaluate(() => (window.isFirstLoad = true));

  const create = page.getByRole('button', { name: 'Create', exact: true });
  await page.getByRole('button', { name: 'Preview' }).click();
  await see(page.getByText('A cluster needs a name.'));
  equal('an incomplete form can be created', await create.isEnabled(), false);
  await until('the field with the problem has the focus', async () => {
    const label = await page.evaluate(() => document.activeElement?.labels?.[0]?.textContent ?? '');
    return label.startsWith('Name') ? '' : `the focus is at "${label}"`;
  });

  await fill(page);
  await until('the manifest has all values', async () => {
    const text = await manifest(page);
    const missing = ['NspawnConfig', 'tag: from-the-page', `kubernetesVersion: ${env('VERSION')}`, 'name: created-pool1'];
    return missing.filter((part) => !text.includes(part)).join(', ');
  });
  truth('the manifest has no secret value', !(await manifest(page)).includes(secret));
  equal('Create before the preview', await create.isEnabled(), false);
  await page.getByRole('button', { name: 'Preview' }).click();
  await see(page.getByLabel('Effect of the edit'));
  await until('Create is enabled', async () => ((await create.isEnabled()) ? '' : 'it is disabled'));
  await create.click();

  await page.waitForURL(`**/ui/clusters/${env('NAMESPACE')}/created`);
  await see(page.getByRole('heading', { name: 'created', exact: true }));
  await until(
    'the cluster is Ready',
    async () => {
      const text = await page.locator('.cluster-title').innerText();
      return /^Ready$/m.test(text) ? '' : (await page.locator('.cluster-head').innerText()).replaceAll('\n', ' ');
    },
    4 * minutes,
  );
  await see(page.getByText('1 of 1'));
  await replaceValues(page);
  equal('the page was not loaded again', await page.evaluate(() => window.isFirstLoad), true);
  equal('answers with the secret value', leaks, []);
  const stored = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));
  truth('the browser stores no secret value', !stored.includes(secret));
  await flawless(page);
});
