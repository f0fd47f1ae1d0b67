// Scrolls and filters a table of 1,000 clusters.
import { env, equal, flawless, open, see, test, truth, until } from './harness.mjs';

/** Both limits are generous, because the browser shares its cores with the API server and with other tests. */
const firstRows = 15_000;
const longestTask = 200;

/**
 * The tasks of the pages' main threads during an action, longest first, in milliseconds of processor time. On a busy
 * machine the wall time of a task is mostly that of other programs.
 */
async function tasks(browser, page, action) {
  await browser.startTracing(page, { categories: ['toplevel', 'disabled-by-default-devtools.timeline'] });
  await action();
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const thread = ({ pid, tid }) => `${pid}/${tid}`;
  const main = new Set(traceEvents.filter((e) => e.args?.name === 'CrRendererMain').map(thread));
  const found = traceEvents.filter((e) => e.ph === 'X' && e.name.endsWith('RunTask') && main.has(thread(e)));
  truth(
    'the trace has tasks with their processor time',
    found.some((e) => e.tdur > 0),
    `${found.length} tasks`,
  );
  const longest = (key) => Math.round(Math.max(...found.map((e) => e[key] ?? 0)) / 1000);
  console.log(
    `${found.length} tasks, the longest took ${longest('dur')} ms and ${longest('tdur')} ms of processor time`,
  );
  return found.map((e) => Math.round(e.tdur / 1000)).sort((a, b) => b - a);
}

async function scroll(page) {
  await page.mouse.move(640, 500);
  const last = page.getByRole('link', { name: 'cluster-0999', exact: true });
  await until(
    'the last cluster is in sight',
    async () => {
      await page.mouse.wheel(0, 700);
      await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(resolve)));
      return (await last.isVisible()) ? '' : 'not yet';
    },
    60_000,
  );
}

/** Waits until the first row has all its machines. */
const complete = (page) =>
  until('all machines are there', async () => {
    const text = await page.getByRole('row').nth(1).innerText();
    return text.includes('10/10') ? '' : text.replaceAll('\n', ' ');
  });

await test(async (browser) => {
  const page = await open(browser);
  const begin = Date.now();
  await page.goto(env('URL'));
  await see(page.getByRole('link', { name: /^cluster-/ }), firstRows);
  console.log(`the first rows are there after ${Date.now() - begin} ms`);
  const count = page.getByRole('button', { name: /^All/ });
  await until('all clusters are there', async () =>
    (await count.innerText()).includes('1000') ? '' : await count.innerText(),
  );
  await complete(page);
  truth('the page renders only some rows', (await page.getByRole('row').count()) < 100);

  await page.goto(`${new URL(page.url()).origin}/ui/clusters?sort=name`);
  await see(page.getByRole('link', { name: 'cluster-0000', exact: true }));
  await complete(page);
  const ofScrolling = await tasks(browser, page, () => scroll(page));
  equal(
    'tasks that block the page',
    ofScrolling.filter((time) => time > longestTask),
    [],
  );

  await page.evaluate(() => window.scrollTo(0, 0));
  await page.keyboard.press('/');
  await page.keyboard.type('cluster-0123');
  await until('one cluster matches', async () => {
    const text = await count.innerText();
    return /^All\s*1$/.test(text.trim()) ? '' : text;
  });
  await see(page.getByRole('link', { name: 'cluster-0123', exact: true }));
  await flawless(page);
});
