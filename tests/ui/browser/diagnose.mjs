// Opens a cluster with a failing machine, from the table of clusters.
import { clusters, env, equal, flawless, open, see, signIn, test, truth } from './harness.mjs';

await test(async (browser) => {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('TOKEN'));
  await page.getByRole('link', { name: 'broken', exact: true }).click();

  // The page asks again when the state of the cluster changes.
  const output = await see(page.getByText(env('OUTPUT')), 60_000);
  const box = await output.boundingBox();
  equal('the scroll position', await page.evaluate(() => window.scrollY), 0);
  truth('the output is on the first screen', box.y + box.height <= 800, JSON.stringify(box));
  await see(page.getByRole('heading', { name: 'What to do' }));
  truth('the first command to run is on the page', (await page.locator('.remedies li').count()) > 0);

  await page.getByRole('tab', { name: /^Machines/ }).click();
  await page.getByRole('button', { name: /broken-server-/ }).click();
  await see(page.getByLabel('Output of the instruction').getByText(env('OUTPUT')));
  await flawless(page);
});
