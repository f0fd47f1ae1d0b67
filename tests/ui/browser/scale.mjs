// Scales a pool with the form of the page, up and down, and compares the preview with what happens.
import { clusters, env, equal, flawless, open, see, signIn, step, test, truth, until } from './harness.mjs';

const names = async () => (await step('machines')).split(' ').filter(Boolean);
const shown = (page) => page.locator('.machine-name').allInnerTexts();

/** Fills in the form and returns the machines of the preview, as [name, effect]. */
async function preview(page, size) {
  await page.getByRole('button', { name: 'Actions' }).click();
  await page.getByRole('menuitem', { name: 'Scale' }).click();
  const dialog = await see(page.getByRole('dialog', { name: 'Scale demo' }));
  const field = await see(dialog.getByLabel('Machines of pool worker'));
  const apply = dialog.getByRole('button', { name: 'Apply' });
  await field.fill(String(size));
  truth('nothing can be applied before its preview', await apply.isDisabled());
  await dialog.getByRole('button', { name: 'Preview' }).click();
  const effect = await see(dialog.getByRole('region', { name: 'Effect of the edit' }));
  await until('the preview allows the change', async () => ((await apply.isEnabled()) ? '' : 'it cannot be applied'));
  await field.fill('7');
  truth('another size needs another preview', await apply.isDisabled());
  await field.fill(String(size));
  const summary = await effect.locator('.effect-summary').innerText();
  const lines = effect.locator('.effect-machines li');
  const machines = await lines.evaluateAll((all) =>
    all.map((li) => [li.querySelector('b').textContent, li.dataset.class]),
  );
  return { dialog, apply, summary, machines };
}

const removed = ({ machines }) => machines.filter(([, effect]) => effect === 'Remove').map(([name]) => name);

async function apply({ dialog, apply }) {
  await apply.click();
  await see(dialog.getByText('Written: Cluster'));
  await dialog.getByRole('button', { name: 'Close', exact: true }).last().click();
  await dialog.waitFor({ state: 'detached' });
}

/** Waits until the page shows these machines, and all of them run. */
async function settled(page, count) {
  await until(
    `the page shows ${count} running machines`,
    async () => {
      const states = await page.locator('.machine .badge').allInnerTexts();
      return states.length === count && states.every((state) => state.includes('Running')) ? '' : states.join(', ');
    },
    60_000,
  );
  await step('settled');
  equal('the machines on the page', (await shown(page)).sort(), await names());
}

await test(async (browser) => {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('TOKEN'));
  await page.getByRole('link', { name: 'demo', exact: true }).click();
  await page.getByRole('tab', { name: /^Machines/ }).click();
  await page.evaluate(() => (window.isFirstLoad = true));
  await settled(page, 2);
  const few = await names();

  const up = await preview(page, 3);
  equal('the summary of a larger pool', up.summary, '2 machines: new · 2 machines: no change');
  equal('the machines of a larger pool', up.machines, Array(2).fill(['New machine of pool worker', 'Add']));
  await apply(up);
  await settled(page, 4);
  const many = await names();
  equal(
    'the former machines stay',
    few.filter((name) => !many.includes(name)),
    [],
  );

  // The first machine is the oldest, so Cluster API removes it first.
  const first = few.find((name) => name.includes('-worker-'));
  const down = await preview(page, 2);
  equal('the machine that the preview removes', removed(down), [first]);
  await apply(down);
  await settled(page, 3);
  equal(
    'the machines that are left',
    await names(),
    many.filter((name) => name !== first),
  );

  // The other two have the same age. Cluster API can choose either of them.
  const again = await preview(page, 1);
  equal('the number of machines that the preview removes', removed(again).length, 1);
  truth('the preview removes a machine of the pool', many.includes(removed(again)[0]), removed(again)[0]);
  await apply(again);
  await settled(page, 2);

  equal('the page was not loaded again', await page.evaluate(() => window.isFirstLoad), true);
  await flawless(page);
});
