// Rotates certificates, and upgrades agents with the menu of a cluster.
import { clusters, env, equal, flawless, open, see, signIn, test, truth } from './harness.mjs';

const long = 60_000;

async function request(page, entry, apply) {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: entry }).click();
  const dialog = await see(page.getByRole('dialog', { name: entry }));
  await dialog.getByRole('button', { name: 'Preview' }).click();
  const effect = await see(dialog.getByRole('region', { name: 'Effect of the edit' }));
  const text = await effect.innerText();
  await dialog.getByRole('button', { name: apply }).click();
  await see(dialog.getByText('Written: Cluster'));
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
  await dialog.waitFor({ state: 'detached' });
  return text;
}

async function administrator(browser) {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('TOKEN'));
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  const effect = await request(page, 'Rotate certificates', 'Rotate certificates');
  truth('the preview says that the machine restarts', effect.includes('1 machine: Kubernetes restarts'), effect);
  await see(page.locator('.cluster-head').getByText('Rotation of certificates: done.'), long);
  const focus = await page.evaluate(() => document.activeElement?.textContent);
  equal('what has the focus after the dialog', focus, 'Actions');
  await page.getByRole('button', { name: 'Stop following the operation' }).click();
  // The Event of the end can arrive before the row of the cluster, which still has the last step then.
  await page.locator('.cluster-head .notice').waitFor({ state: 'detached', timeout: long });

  await request(page, 'Upgrade the node agents', 'Upgrade the agents');
  // The agents of simulated machines do not report an upgrade.
  await see(page.locator('.cluster-head').getByText(/Upgrading the node agent of .*; 0 of 1 machines are done/), long);
  equal('lines about the upgrade', await page.locator('.cluster-head .notice').count(), 1);
  await flawless(page);
}

async function viewer(browser) {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('VIEWER'));
  await page.getByLabel('Namespaces', { exact: true }).fill(env('NAMESPACE'));
  await page.getByRole('button', { name: 'Show clusters' }).click();
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  await page.getByRole('button', { name: 'Actions' }).click();
  await see(page.getByText('You may not change clusters in'));
  for (const name of ['Rotate certificates', 'Take a snapshot', 'Delete the cluster'])
    truth(`a viewer may not ${name}`, await page.getByRole('menuitem', { name }).isDisabled());
  await page.keyboard.press('Escape');
  await page.getByRole('tab', { name: 'Snapshots' }).click();
  await see(page.getByText('You may not edit this cluster.'));
  truth('a viewer may not take a snapshot', await page.getByRole('button', { name: 'Take a snapshot' }).isDisabled());
  await flawless(page);
}

await test(async (browser) => {
  await administrator(browser);
  await viewer(browser);
});
