// Deletes a cluster on its page: its protection, what holds the deletion, the typed name, and the end.
import { clusters, env, equal, flawless, open, see, signIn, step, test, truth, until } from './harness.mjs';

async function dialogOf(page) {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete the cluster' }).click();
  return see(page.getByRole('dialog', { name: 'Delete demo' }));
}

async function unprotect(page) {
  const dialog = await dialogOf(page);
  await see(dialog.getByText('is protected'));
  equal(
    'buttons that delete a protected cluster',
    await dialog.getByRole('button', { name: 'Delete the cluster' }).count(),
    0,
  );
  await dialog.getByRole('button', { name: 'End the protection' }).click();
  const change = await see(page.getByRole('dialog', { name: 'End the protection of demo' }));
  await change.getByRole('button', { name: 'Preview' }).click();
  const apply = change.getByRole('button', { name: 'End the protection' });
  await until('the preview allows the change', async () => ((await apply.isEnabled()) ? '' : 'it cannot be applied'));
  await apply.click();
  await see(change.getByText('Written: Cluster'));
  await change.getByRole('button', { name: 'Close', exact: true }).last().click();
  await see(page.getByRole('dialog', { name: 'Delete demo' }).getByRole('button', { name: 'Delete the cluster' }));
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
}

await test(async (browser) => {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('TOKEN'));
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  await page.evaluate(() => (window.isFirstLoad = true));
  await unprotect(page);

  const dialog = await dialogOf(page);
  await see(dialog.getByRole('region', { name: 'Machines' }).getByText('the driver removes the host'));
  await see(dialog.getByRole('region', { name: 'Also goes' }).getByText(/management Cluster c-m-/));
  await see(dialog.getByRole('region', { name: 'Holds the deletion' }).getByText('finalizer example.com/guard'));
  const remove = dialog.getByRole('button', { name: 'Delete the cluster' });
  truth('a deletion needs the name of the cluster', await remove.isDisabled());
  await dialog.getByLabel('Type demo to confirm').fill('Demo');
  truth('another name deletes nothing', await remove.isDisabled());
  await dialog.getByLabel('Type demo to confirm').fill('demo');

  await step('label');
  await remove.click();
  await see(dialog.getByText('has changed since you opened this dialog'));
  truth('an error needs another look', await remove.isDisabled());
  await dialog.getByRole('button', { name: 'Look again' }).click();
  await until('the deletion is possible', async () => ((await remove.isEnabled()) ? '' : 'it is not'));
  const before = Number(await step('writes'));
  await step('lose the answer');
  await remove.click();
  await see(dialog.getByText('The deletion may have begun.'));
  equal('deletions', Number(await step('writes')) - before, 1);
  await dialog.getByRole('button', { name: 'Look again' }).click();
  await see(dialog.getByText('already being deleted'));
  await see(dialog.getByRole('region', { name: 'Holds the deletion' }).getByText('finalizer example.com/guard'));
  equal('buttons that delete again', await remove.count(), 0);
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
  await dialog.waitFor({ state: 'detached' });
  await see(page.locator('.cluster-title').getByText('Deleting'));

  await step('remove guard');
  await see(page.getByText('is gone.'), 90_000);
  equal('deletions in the end', Number(await step('writes')) - before, 1);
  equal('the page was not loaded again', await page.evaluate(() => window.isFirstLoad), true);
  await page.getByRole('link', { name: 'Show all clusters' }).click();
  await see(page.getByRole('heading', { name: 'Clusters' }));
  await page.goto(clusters());
  await see(page.getByText(/^No cluster/));
  await flawless(page);
});
