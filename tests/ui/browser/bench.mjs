// Measures the first load, and the time from a change of a status until the page shows it.
import { writeFileSync } from 'node:fs';
import { env, open, see, step, test } from './harness.mjs';

/** Returns, inside the page, the time at which the text is painted. */
const whenShown = (page, text) =>
  page.evaluate(
    (text) =>
      new Promise((resolve) => {
        const check = () => {
          if (!document.querySelector('[role=table]')?.textContent.includes(text)) return;
          observer.disconnect();
          requestAnimationFrame(() => setTimeout(() => resolve(Date.now())));
        };
        const observer = new MutationObserver(check);
        observer.observe(document.body, { subtree: true, childList: true, characterData: true });
        check();
      }),
    text,
  );

await test(async (browser) => {
  const page = await open(browser);
  await page.goto(env('URL').replace('/ui/', '/ui/clusters?sort=name'));
  await see(page.getByRole('link', { name: 'cluster-0000', exact: true }));
  const bytes = await page.evaluate(() =>
    [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
      .filter((entry) => !entry.name.includes('/ui/api/'))
      .reduce((sum, entry) => sum + entry.encodedBodySize, 0),
  );
  const times = [];
  for (let i = 1; i <= Number(env('CHANGES')); i++) {
    const shown = whenShown(page, `change ${i}.`);
    const changed = Number(await step('change'));
    times.push((await shown) - changed);
  }
  times.sort((a, b) => a - b);
  console.log(`from a change to the screen: ${times.join(' ')} ms`);
  const figures = { firstLoadKB: Math.round(bytes / 100) / 10, changeToScreenMS: times[Math.floor(times.length / 2)] };
  writeFileSync(env('RESULT'), JSON.stringify(figures));
});
