// Checks each page with axe, in two schemes and two widths, and uses the clusters with the keyboard alone.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { clusters, env, equal, flawless, open, see, signIn, test, truth, until } from './harness.mjs';
import { pagesOf, visit } from './pages.mjs';

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const url = env('URL');
const wide = { width: 1280, height: 800 };
const narrow = { width: 360, height: 780 };
const problems = [];

async function axeFinds(page, title) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
  for (const { id, impact, nodes } of violations) {
    const where = nodes
      .slice(0, 3)
      .map((node) => `${node.target} ${node.any[0]?.message ?? ''}`)
      .join('; ');
    if (impact === 'serious' || impact === 'critical') problems.push(`${title}: ${impact}: ${id}: ${where}`);
    else console.log(`${title}: ${impact}: ${id}: ${where}`);
  }
}

/** Runs axe at both widths in the light scheme, and at the large width in the dark one, which has the same layout. */
async function check(page, name, scheme) {
  await axeFinds(page, `${name}, ${scheme}`);
  await page.setViewportSize(narrow);
  if (scheme === 'light') await axeFinds(page, `${name}, ${scheme}, narrow`);
  await until(
    `${name}, ${scheme}, fits`,
    async () => {
      const { extra, widest } = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        const right = (element) => element.getBoundingClientRect().right;
        const [last] = [...document.body.querySelectorAll('*')].sort((a, b) => right(b) - right(a));
        return { extra: scrollWidth - clientWidth, widest: `${last.tagName} ${last.className} ${last.textContent}` };
      });
      return extra > 0 ? `the page is ${extra} px wider than the window: ${widest}` : '';
    },
    2_000,
  ).catch((error) => problems.push(error.message));
  await page.setViewportSize(wide);
}

async function pages(browser, scheme) {
  const page = await open(browser, { colorScheme: scheme });
  await page.goto(clusters());
  await see(page.getByLabel('Token', { exact: true }));
  await check(page, 'sign in', scheme);
  await signIn(page, 'wrong');
  await see(page.getByText('does not accept the token'));
  await check(page, 'refused token', scheme);
  await signIn(page, env('TOKEN'));
  await see(page.getByRole('link', { name: 'good', exact: true }));
  const all = pagesOf(env('NAMESPACE'), 'broken');
  all.push({
    ...all.find((p) => p.name === 'overview'),
    name: 'good overview',
    path: `/ui/clusters/${env('NAMESPACE')}/good`,
  });
  for (const each of all) {
    await visit(page, url, each);
    await check(page, each.name, scheme);
  }
  await page.getByRole('button', { name: /^User / }).click();
  await see(page.getByRole('menuitem', { name: 'Sign out' }));
  await check(page, 'menu', scheme);
  await page.keyboard.press('Escape');
  await forms(page, scheme);
  await flawless(page);
  await page.context().close();
}

async function chooser(browser) {
  const page = await open(browser);
  await page.goto(clusters());
  await signIn(page, env('VIEWER'));
  await see(page.getByLabel('Namespaces', { exact: true }));
  await check(page, 'namespaces', 'light');
  await page.context().close();
}

/** What has the focus: its role or tag, and its name. */
const focused = (page) =>
  page.evaluate(() => {
    const e = document.activeElement;
    return {
      tag: e.tagName,
      text: (e.getAttribute('aria-label') ?? e.textContent).trim(),
      inTable: !!e.closest('[role=table]'),
    };
  });

async function keyboard(browser) {
  const page = await open(browser);
  await page.goto(clusters());
  await see(page.getByLabel('Token', { exact: true }));
  equal('the focus of the sign-in page', (await focused(page)).tag, 'INPUT');
  await page.keyboard.type(env('TOKEN'));
  await page.keyboard.press('Enter');
  await see(page.getByRole('link', { name: 'good', exact: true }));

  await page.keyboard.press('/');
  equal('the focus after /', (await focused(page)).text, 'Search clusters');
  await page.reload();
  await see(page.getByRole('link', { name: 'good', exact: true }));
  await page.keyboard.press('Tab');
  equal('the first stop', (await focused(page)).text, 'Skip to content');
  await page.keyboard.press('Enter');
  let stops = 0;
  for (; stops < 40; stops++) {
    await page.keyboard.press('Tab');
    const { inTable, text } = await focused(page);
    if (inTable && text === 'good') break;
  }
  truth('the keyboard reaches a cluster in the table', stops < 40);
  await page.keyboard.press('Enter');
  await see(page.getByRole('heading', { name: 'good', exact: true }));
  const tab = page.getByRole('tab', { name: 'Overview' });
  await tab.focus();
  await page.keyboard.press('ArrowRight');
  await see(page.getByRole('heading', { name: /^Pool / }));
  await dialogs(page);
  await flawless(page);
}

/** A dialog has the focus while it is open, and returns it to the button of its menu. */
async function dialogs(page) {
  const actions = page.getByRole('button', { name: 'Actions' });
  await actions.focus();
  await page.keyboard.press('Enter');
  await see(page.getByRole('menuitem', { name: 'Scale' }));
  await page.keyboard.press('Enter');
  await see(page.getByLabel('Machines of pool server'));
  for (let i = 0; i < 12; i++) {
    await page.keyboard.press('Tab');
    const isInside = await page.evaluate(
      () => document.activeElement === document.body || !!document.activeElement.closest('dialog'),
    );
    truth('the focus stays in the dialog', isInside);
  }
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  equal('the focus after a dialog', (await focused(page)).text, 'Actions');
}

/** The forms that change a cluster. */
async function forms(page, scheme) {
  await page.goto(`${url}/ui/clusters/${env('NAMESPACE')}/good`);
  for (const label of ['Scale', 'Kubernetes version', 'Labels']) {
    await page.getByRole('button', { name: 'Actions' }).click();
    await page.getByRole('menuitem', { name: label, exact: true }).click();
    await see(page.getByRole('button', { name: 'Preview' }));
    await check(page, label, scheme);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
}

await test(async (browser) => {
  await pages(browser, 'light');
  await pages(browser, 'dark');
  await chooser(browser);
  await keyboard(browser);
  equal('problems', problems, []);
});
