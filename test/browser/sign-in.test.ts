/** Sign-in: it shows where the first token is, and the page's scripts never hold a token. */
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { openBrowser, signIn, visit } from './support/console.ts';

let server: TestServer;
let browser: Browser;
beforeAll(async () => {
  [server, browser] = await Promise.all([inProcessServer(), openBrowser()]);
});
afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

it('says what is wrong with a token, what to do, and where the first one is', async () => {
  const { page, complaints } = await visit(browser);
  await page.goto(server.url);
  await page.getByText('admin.token').first().waitFor();
  await page.getByLabel('Token', { exact: true }).fill('not-a-token-of-this-server');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const alert = page.getByRole('alert');
  await alert.getByText('Unknown token').waitFor();
  expect(await alert.innerText()).toMatch(/What to do:.*token/s);
  expect(await alert.getByRole('button', { name: /copy [0-9a-f]{32}/ }).count()).toBe(1);
  expect(complaints).toEqual([]);
  await page.context().close();
});

it('leads to the requested page, keeps the session over a reload, and ends it', async () => {
  const { page, context, complaints } = await visit(browser);
  await signIn(page, server, '/operations?status=failed');
  await page.getByRole('heading', { name: 'Operations' }).waitFor();
  expect(new URL(page.url()).search).toBe('?status=failed');
  expect(await page.getByRole('button', { name: /^failed/ }).getAttribute('aria-pressed')).toBe('true');

  expect(await page.evaluate('document.cookie')).toBe('');
  expect(await page.evaluate('JSON.stringify({ ...localStorage, ...sessionStorage })')).not.toContain(server.token);
  const [cookie] = await context.cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });

  await page.reload();
  await page.getByRole('heading', { name: 'Operations' }).waitFor();

  await page.getByRole('button', { name: /admin/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  expect(await context.cookies()).toEqual([]);
  const copied = { headers: { cookie: `${cookie?.name}=${cookie?.value}` } };
  expect((await fetch(`${server.url}/v1/session`, copied)).status).toBe(401);
  await page.goto(`${server.url}/fleet`);
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  expect(complaints).toEqual([]);
  await context.close();
});

it('never follows a link to another site', async () => {
  const { page, context } = await visit(browser);
  await signIn(page, server, '/sign-in?next=//elsewhere.invalid/fleet');
  expect(new URL(page.url()).origin).toBe(server.url);
  await context.close();
});

it('asks to sign in again when the token is revoked, without a reload', async () => {
  const { page, context } = await visit(browser);
  const made = await server.client.call('token-create', { body: { name: 'guest', role: 'viewer' } });
  await signIn(page, { ...server, token: made.token ?? '' }, '/fleet');
  await page.getByText('No machines yet').waitFor();
  // Viewers are offered no actions.
  expect(await page.getByRole('button', { name: 'Allocate' }).count()).toBe(0);
  await server.client.call('token-delete', { params: { id: made.token_id } });
  const signInAgain = page.getByRole('button', { name: 'Sign in' });
  // The stream may end and the page ask to sign in before the click; then there is nothing to
  // click.
  const clicked = page.getByRole('link', { name: 'Allocations' }).click();
  await Promise.race([clicked.catch(() => {}), signInAgain.waitFor()]);
  await signInAgain.waitFor();
  expect(['/fleet', '/allocations']).toContain(new URL(page.url()).searchParams.get('next'));
  await context.close();
});

it('lists sessions, and signs another browser out', async () => {
  const made = await server.client.call('token-create', { body: { name: 'lost-laptop', role: 'viewer' } });
  const laptop = await visit(browser);
  await signIn(laptop.page, { ...server, token: made.token ?? '' }, '/settings');
  await laptop.page.getByRole('row', { name: /lost-laptop.*this browser/ }).waitFor();
  // Only some may see the sessions of others.
  expect(await laptop.page.getByRole('row', { name: /^admin/ }).count()).toBe(0);

  const { page, context, complaints } = await visit(browser);
  await signIn(page, server, '/settings');
  await page.getByRole('button', { name: 'Revoke session of lost-laptop' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click();
  await laptop.page.getByRole('button', { name: 'Sign in' }).waitFor();
  await page.getByRole('button', { name: 'Revoke session of lost-laptop' }).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Revoke session of admin (this browser)' }).waitFor();
  expect(complaints).toEqual([]);
  await Promise.all([context.close(), laptop.context.close()]);
});

it('creates a token that is shown once, uses it, finds its refusal in the audit, and revokes it', async () => {
  const { page, context, complaints } = await visit(browser);
  await signIn(page, server, '/settings');
  await page.getByRole('button', { name: 'Create token' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('textbox', { name: 'Name' }).fill('night-shift');
  await dialog.getByRole('button', { name: 'Create' }).click();
  await dialog.getByText('It is not shown again.').waitFor();
  const token = await dialog.locator('code').innerText();
  await dialog.getByRole('button', { name: 'Finish' }).click();
  await page
    .getByRole('row', { name: /^night-shift/ })
    .getByText('viewer')
    .waitFor();
  expect(await page.content()).not.toContain(token);

  const refused = server.as(token).call('pool-delete', { params: { pool: 'local' } });
  await expect(refused).rejects.toThrow();
  await page.getByRole('link', { name: 'Audit' }).click();
  await page.getByText('Denied', { exact: true }).click();
  await page.getByRole('searchbox', { name: 'Who' }).fill('night-shift');
  await page.waitForURL(/kind=request.denied&actor=night-shift|actor=night-shift&kind=request.denied/);
  await page
    .getByRole('row', { name: /night-shift.*pool-delete/ })
    .first()
    .waitFor();

  await page.getByRole('link', { name: 'Settings' }).click();
  await page.getByRole('button', { name: 'Revoke night-shift' }).click();
  expect(await dialog.getByLabel('Reason').count()).toBe(0);
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await page.getByRole('row', { name: /^night-shift/ }).waitFor({ state: 'detached' });
  expect(complaints).toEqual([]);
  await context.close();
});
