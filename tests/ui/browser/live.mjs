// Shows a cluster that becomes Ready, without a reload, and continues after a cut of the connection.
import { clusters, env, equal, flawless, open, see, signIn, step, test, truth, until } from './harness.mjs';

const row = (page, name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });

await test(async (browser) => {
  const page = await open(browser);
  const cursors = [];
  page.on('request', (request) => {
    if (request.url().includes('/ui/api/v1/stream')) cursors.push(request.headers()['last-event-id'] ?? '');
  });
  await page.goto(clusters());
  await signIn(page, env('TOKEN'));
  await see(page.getByText(/^No cluster/));
  await page.evaluate(() => (window.isFirstLoad = true));

  await step('apply first');
  await see(row(page, 'first'));
  const states = new Set();
  await until(
    'the cluster is Ready',
    async () => {
      const text = await row(page, 'first').innerText();
      states.add(text.split('\n')[0]);
      return text.startsWith('Ready') ? '' : text.replaceAll('\n', ' ');
    },
    60_000,
  );
  truth('the page shows how the cluster becomes Ready', states.size > 1, [...states].join(', '));
  await until('the machine is ready', async () =>
    (await row(page, 'first').innerText()).includes('1/1') ? '' : await row(page, 'first').innerText(),
  );

  await step('cut');
  await see(page.getByText('Reconnecting to the server'));
  await see(row(page, 'first'));
  await step('pause first');
  await step('apply second');
  equal('rows during the cut', await row(page, 'second').count(), 0);
  await step('join');
  await see(row(page, 'second'));
  await until('the first cluster is paused', async () => {
    const text = await row(page, 'first').innerText();
    return text.startsWith('Paused') ? '' : text;
  });
  await page.getByText('Reconnecting to the server').waitFor({ state: 'hidden' });
  truth(
    'the stream continues after its last change',
    cursors.length > 1 && cursors[0] === '' && cursors.at(-1),
    cursors.join(' '),
  );

  await page.getByRole('link', { name: 'first', exact: true }).click();
  await see(page.getByRole('heading', { name: 'first', exact: true }));
  equal('the page was not loaded again', await page.evaluate(() => window.isFirstLoad), true);
  await flawless(page);
});
