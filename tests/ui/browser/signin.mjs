// Signs in and out, with a token of the management cluster and with the URL of drover ui.
import { env, equal, flawless, open, see, signIn, step, test, truth } from './harness.mjs';

/** Everything that the page stores in the browser. */
const stored = (page) => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]));

async function withToken(browser) {
  const page = await open(browser);
  await page.goto(`${env('URL')}/ui/administration`);
  const field = await see(page.getByLabel('Token', { exact: true }));

  await signIn(page, 'no-such-token');
  await see(page.getByText('does not accept the token'));
  equal('the field after a wrong token is invalid', await field.getAttribute('aria-invalid'), 'true');
  const described = (await field.getAttribute('aria-describedby')) ?? '';
  const message = await page.evaluate(
    (ids) =>
      ids
        .split(' ')
        .map((id) => document.getElementById(id)?.textContent)
        .join(' '),
    described,
  );
  truth('the message belongs to the field', message.includes('does not accept the token'), message);
  equal('the field keeps what was typed', await field.inputValue(), 'no-such-token');
  equal('cookies after a wrong token', await page.context().cookies(), []);

  await signIn(page, env('TOKEN'));
  await see(page.getByRole('navigation', { name: 'Pages' }));
  equal('the page after signing in', new URL(page.url()).pathname, '/ui/administration');
  truth('the token is stored', !(await stored(page)).includes(env('TOKEN')));
  await page.reload();
  await see(page.getByRole('navigation', { name: 'Pages' }));

  await page.getByRole('button', { name: /^User / }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await see(page.getByLabel('Token', { exact: true }));
  equal('cookies after signing out', await page.context().cookies(), []);
  await page.reload();
  await see(page.getByLabel('Token', { exact: true }));
  await flawless(page);
}

async function local(browser) {
  const url = await step('drover ui');
  const secret = new URL(url).hash.replace('#token=', '');
  const page = await open(browser);
  await page.goto(url.replace(secret, 'another'));
  await see(page.getByText('not the one that drover ui has printed'));
  await page.goto('about:blank');

  await page.goto(url);
  await see(page.getByRole('navigation', { name: 'Pages' }));
  truth('the address has the token', !page.url().includes(secret), page.url());
  truth('the token is stored', !(await stored(page)).includes(secret));
  const addresses = await page.evaluate(() => navigation.entries().map((entry) => entry.url));
  truth('the history has the token', !addresses.some((address) => address.includes(secret)), addresses.join(' '));
  await page.reload();
  await see(page.getByRole('navigation', { name: 'Pages' }));
  await flawless(page);
}

await test(async (browser) => {
  await withToken(browser);
  await local(browser);
});
