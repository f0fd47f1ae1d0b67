// What all scripts share: the browser, failures with a picture, and requests to the Go test.
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { chromium } from 'playwright-core';

const name = basename(process.argv[1], '.mjs');
const timeout = 20_000;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

export const env = (variable) => {
  const value = process.env[`UI_${variable}`];
  if (!value) throw new Error(`the environment lacks UI_${variable}`);
  return value;
};

/** Asks the Go test for a step, and returns its answer. */
export async function step(what) {
  console.log(`step: ${what}`);
  const { value, done } = await answers.next();
  if (done) throw new Error(`the test ended instead of step ${what}`);
  return value;
}

export function equal(what, got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want))
    throw new Error(`${what}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

export function truth(what, holds, detail = '') {
  if (!holds) throw new Error(`${what} ${detail}`);
}

/** Repeats a check until it returns no text. The text says what is missing. */
export async function until(what, check, limit = timeout) {
  const end = Date.now() + limit;
  for (;;) {
    const missing = await check();
    if (!missing) return;
    if (Date.now() > end) throw new Error(`${what}: ${missing}, still not after ${limit} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** The clusters of this test. Deleted ones of earlier tests can still be there. */
export const clusters = () => `${env('URL')}/ui/clusters?namespace=${env('NAMESPACE')}`;

/** Waits until a locator is visible and returns it. */
export async function see(locator, limit = timeout) {
  await locator.first().waitFor({ state: 'visible', timeout: limit });
  return locator.first();
}

const faults = [];
const pages = [];

/**
 * Opens a page in a new context. It records what no page of Drover may do: errors in scripts, and violations of the
 * content security policy. Answers with an error are no fault, because some tests provoke them.
 */
export async function open(browser, options = {}) {
  const context = await browser.newContext({
    ignoreHTTPSErrors: true,
    viewport: { width: 1280, height: 800 },
    reducedMotion: 'reduce',
    ...options,
  });
  context.setDefaultTimeout(timeout);
  const page = await context.newPage();
  pages.push(page);
  page.on('pageerror', (error) => faults.push(`${page.url()}: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      faults.push(`${page.url()}: ${message.text()}`);
  });
  await page.addInitScript(() => {
    window.violations = [];
    addEventListener('securitypolicyviolation', (event) =>
      window.violations.push(`${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  return page;
}

/** Fails if a page violated its content security policy or had an error. */
export async function flawless(page) {
  equal(`violations at ${page.url()}`, await page.evaluate(() => window.violations), []);
  equal('errors of pages', faults, []);
}

/** Forgets the errors that a test provoked. */
export function forgive() {
  faults.length = 0;
}

export async function signIn(page, token) {
  await page.getByLabel('Token', { exact: true }).fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Runs a test in a browser. If it fails, pictures and traces of all pages are in a temporary directory. */
export async function test(run) {
  const browser = await chromium.launch({
    executablePath: env('CHROMIUM'),
    args: ['--no-sandbox', '--disable-dev-shm-usage'],
  });
  try {
    await run(browser);
    equal('errors of pages', faults, []);
  } catch (error) {
    console.error(error.stack);
    faults.forEach((fault) => console.error(fault));
    await keep();
    process.exitCode = 1;
  }
  await browser.close();
  process.exit();
}

async function keep() {
  const dir = mkdtempSync(join(tmpdir(), `drover-ui-${name}-`));
  for (const [i, page] of pages.entries()) {
    if (page.isClosed()) continue;
    try {
      await page.screenshot({ path: join(dir, `${i}.png`), timeout: 5_000 });
      writeFileSync(join(dir, `${i}.html`), `<!-- ${page.url()} -->\n${await page.content()}`);
    } catch (error) {
      console.error(`no picture of ${page.url()}: ${error.message}`);
    }
  }
  console.error(`pictures and pages are in ${dir}`);
}
