// Takes a snapshot, and restores it with its configuration.
import { clusters, env, equal, flawless, open, see, signIn, step, test, truth, until } from './harness.mjs';

const long = 60_000;
const badge = (page) => page.locator('.cluster-title .badge');

async function ready(page) {
  await until(
    'the cluster is Ready',
    async () => {
      const text = await badge(page).innerText();
      return text.includes('Ready') ? '' : `${text} ${await page.locator('.cluster-head').innerText()}`;
    },
    long,
  );
}

async function previewed(dialog) {
  await dialog.getByRole('button', { name: 'Preview' }).click();
  await see(dialog.getByRole('region', { name: 'Effect of the edit' }));
}

async function close(dialog) {
  await see(dialog.getByText('Written: Cluster'));
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
  await dialog.waitFor({ state: 'detached' });
}

/** Requests a snapshot with the dialog. */
async function request(page) {
  await page.getByRole('button', { name: 'Take a snapshot' }).click();
  const dialog = await see(page.getByRole('dialog', { name: 'Take a snapshot' }));
  const apply = dialog.getByRole('button', { name: 'Take the snapshot' });
  truth('no snapshot is taken before the preview', await apply.isDisabled());
  await previewed(dialog);
  await see(dialog.getByText('files change, nothing restarts').first());
  await apply.click();
  await close(dialog);
}

async function take(page) {
  await see(page.getByText('Drover knows no snapshot'));
  await request(page);
  await see(page.locator('.cluster-head').getByText('Snapshot: done.'), long);
  const line = page.getByRole('list', { name: 'Snapshots' }).getByRole('listitem');
  await see(line.filter({ hasText: 'Successful' }), long);
  equal('the number of snapshots', await line.count(), 1);
  const text = await line.innerText();
  for (const part of ['file on-demand-1', '4.0 MiB', 'v1.36.2+k3s1', 'Node '])
    truth(`the list shows ${part}`, text.includes(part), text);
  await page.getByRole('button', { name: 'Stop following the operation' }).click();
}

/** A failure is said on the page, with the output of the node. */
async function fail(page) {
  await step('break snapshots');
  await request(page);
  const line = await see(page.getByRole('alert').filter({ hasText: 'Snapshot: failed.' }), long);
  const text = await line.innerText();
  truth('the page says why the snapshot failed', text.includes('no snapshot could be taken'), text);
  await step('mend snapshots');
  await page.getByRole('button', { name: 'Stop following the operation' }).click();
  await ready(page);
}

async function restore(page) {
  await page.getByRole('button', { name: /^Restore / }).click();
  const dialog = await see(page.getByRole('dialog', { name: 'Restore demo' }));
  await see(dialog.getByText('since the snapshot is lost'));
  await see(dialog.getByText('Version after'));
  await previewed(dialog);
  const apply = dialog.getByRole('button', { name: 'Restore the snapshot' });
  await (await see(dialog.getByLabel('Type demo to confirm'))).fill('demo');
  await until('the first choice can be applied', async () => ((await apply.isEnabled()) ? '' : 'it is disabled'));
  await dialog.getByRole('radio', { name: 'Data and configuration' }).check();
  await see(dialog.getByText('spec.rkeConfig.additionalManifest'));
  truth('another choice needs another preview', await apply.isDisabled());
  await previewed(dialog);
  const name = await see(dialog.getByLabel('Type demo to confirm'));
  equal('the typed name after another choice', await name.inputValue(), '');
  truth('a restore needs the name of the cluster', await apply.isDisabled());
  await name.fill('demo2');
  truth('another name restores nothing', await apply.isDisabled());
  await name.fill('demo');
  await apply.click();
  await close(dialog);
}

await test(async (browser) => {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('TOKEN'));
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  await page.getByRole('tab', { name: 'Snapshots' }).click();
  await page.evaluate(() => (window.isFirstLoad = true));
  await ready(page);
  await take(page);
  await fail(page);
  await step('configure');
  await ready(page);
  equal('the restore that is requested', await step('request'), 'none');

  const lines = new Set();
  await page.exposeFunction('sawLine', (text) => lines.add(text));
  await page.evaluate(() =>
    new MutationObserver(() => {
      for (const notice of document.querySelectorAll('.cluster-head .notice-text')) window.sawLine(notice.textContent);
    }).observe(document.body, { subtree: true, childList: true, characterData: true }),
  );
  await restore(page);
  await see(page.locator('.cluster-head').getByText('Restore: done.'), long);
  await ready(page);
  truth(
    'the page shows the steps of the restore',
    [...lines].some((text) => /^Restore: (?!done)/.test(text)),
    [...lines],
  );
  console.log([...lines].join('\n'));
  await until('the former configuration is back', async () => {
    const request = await step('request');
    return request === '1 all ""' ? '' : request;
  });
  equal('the page was not loaded again', await page.evaluate(() => window.isFirstLoad), true);
  await flawless(page);
});
