/** What the server says about itself is true: the OpenAPI document, the error catalogue and their pages. */
import { globSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { contractDocs, fromRoot } from '../../scripts/generate-contract-docs.ts';
import { errorCatalogue } from '../../src/contract/errors.ts';
import { pathFaults } from '../../src/contract/path-faults.ts';
import type { RouteDeclaration } from '../../src/contract/route.ts';
import { type OperationName, routes } from '../../src/contract/routes.ts';
import { openBrowser } from '../browser/support/console.ts';
import { inProcessServer, type TestServer } from '../support/server.ts';
import { send } from './support/calls.ts';

let server: TestServer;
beforeAll(async () => {
  server = await inProcessServer();
});
afterAll(() => server.stop());

const codes = [...Object.keys(errorCatalogue), ...Object.keys(pathFaults)].sort();

describe('the error catalogue', () => {
  it.each(Object.entries(contractDocs))('%s is what the contract says', (path, render) => {
    expect(readFileSync(fromRoot(path), 'utf8')).toBe(render());
  });

  it('documents every code, and every documented code exists', () => {
    const documented = [...readFileSync(fromRoot('docs/errors.md'), 'utf8').matchAll(/^### (\S+)$/gm)];
    expect(documented.map(([, code]) => code).sort()).toEqual(codes);
  });

  it('has no code that nothing sends', () => {
    const sources = globSync('src/**/*.ts', { cwd: fromRoot('') })
      .filter((path) => !path.endsWith('.test.ts') && path !== 'src/contract/errors.ts')
      .map((path) => readFileSync(fromRoot(path), 'utf8'))
      .join('\n');
    expect(codes.filter((code) => !sources.includes(`'${code}'`))).toEqual([]);
  });

  it('is where the type of a problem leads', async () => {
    const { body } = await send(server.url, 'GET', '/v1/nodes');
    const type = new URL(String(body.type), `${server.url}/v1/nodes`);
    const page = await send(server.url, 'GET', type.pathname);
    expect(page.headers.get('content-type')).toContain('text/html');
    for (const code of codes) expect(page.text).toContain(`id="${code}"`);
    expect(page.text).toContain(`id="${type.hash.slice(1)}"`);
  });
});

interface Document {
  openapi: string;
  paths: Record<
    string,
    Record<
      string,
      {
        operationId: string;
        security: object[];
        parameters: { name: string; in: string }[];
        responses: object;
        requestBody?: object;
      }
    >
  >;
  components: { schemas: Record<string, object>; securitySchemes: Record<string, object> };
}

describe('the OpenAPI document', () => {
  let document: Document;
  beforeAll(async () => {
    document = (await send(server.url, 'GET', '/openapi.json')).body as unknown as Document;
  });

  it('has every route once, under its operation id, with all its parameters', () => {
    expect(document.openapi).toBe('3.1.0');
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
    );
    expect(operations.map(({ operationId }) => operationId).sort()).toEqual(Object.keys(routes).sort());
    for (const { path, method, operationId, parameters, responses, requestBody } of operations) {
      const route: RouteDeclaration = routes[operationId as OperationName];
      expect([method.toUpperCase(), path]).toEqual([route.method, route.path]);
      const inPath = parameters.filter((each) => each.in === 'path').map(({ name }) => `{${name}}`);
      expect(inPath).toEqual(path.match(/\{\w+\}/g) ?? []);
      expect(Object.keys(responses).sort()).toEqual([String(route.success), 'default'].sort());
      expect(requestBody !== undefined, operationId).toBe(route.body !== undefined || route.also_reads !== undefined);
    }
  });

  it('refers only to what is there, and keeps nothing that nobody refers to', () => {
    const referred = new Set([...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) => ref));
    const there = Object.keys(document.components.schemas).map((name) => `#/components/schemas/${name}`);
    expect([...referred].sort()).toEqual(there.sort());
    expect(JSON.stringify(document)).not.toContain('"$id"');
  });

  it('says for each route who may call it', () => {
    const kinds = { public: [], person: ['token', 'session'], agent: ['instance_credential'], body: [] };
    for (const [name, route] of Object.entries(routes) as [OperationName, RouteDeclaration][]) {
      const { security = [] } = document.paths[route.path]?.[route.method.toLowerCase()] ?? {};
      expect(
        security.flatMap((each) => Object.keys(each)),
        name,
      ).toEqual(kinds[route.access.kind]);
      for (const scheme of kinds[route.access.kind]) expect(document.components.securitySchemes).toHaveProperty(scheme);
    }
  });
});

it.each([
  ['/docs', 'Claim a node of a pool'],
  ['/docs/errors', 'allocation_not_found'],
])('%s loads in a browser without complaint', async (path, shown) => {
  const browser = await openBrowser();
  try {
    const page = await browser.newPage();
    const complaints: string[] = [];
    page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(error.message));
    page.on('requestfailed', (request) => complaints.push(request.url()));
    await page.goto(server.url + path);
    await page.getByText(shown).first().waitFor();
    expect(complaints).toEqual([]);
  } finally {
    await browser.close();
  }
});
