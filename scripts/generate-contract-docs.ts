/**
 * Writes docs/reference/errors.md and docs/reference/api.md from the contract: `node
 * scripts/generate-contract-docs.ts`.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { FaultEntry } from '../src/contract/errors/error-entry.ts';
import { type ErrorEntry, errorCatalogue } from '../src/contract/errors/errors.ts';
import { type PathFault, pathFaults } from '../src/contract/errors/path-faults.ts';
import type { Access, RouteDeclaration } from '../src/contract/route.ts';
import { routes } from '../src/contract/routes.ts';

const errorSection = ([code, entry]: [string, FaultEntry & { status?: number }]) =>
  [
    `### ${code}`,
    '',
    `${entry.status === undefined ? '' : `**${entry.status}** · `}${entry.title} · owner: ${entry.owner_layer}${entry.detail_layer ? ` (${entry.detail_layer})` : ''}`,
    '',
    `- Cause: ${entry.cause}`,
    `- What to do: ${entry.remedy}`,
  ].join('\n');

const errorsPage = () =>
  `${[
    '# Errors',
    'Made from `src/contract/errors/errors.ts` by `node scripts/generate-contract-docs.ts`; a test compares the two.',
    'Every error is `application/problem+json` (RFC 9457) with one of these codes. `owner_layer` says who has to act, `correlation_id` is found again in evidence and logs, and `type` leads to the same text on the server (`/docs/errors`).',
    ...Object.entries<ErrorEntry>(errorCatalogue).map(errorSection),
    '## Found on the way',
    'Nobody sends these: `slipway doctor`, `slipway agent doctor`, the agent’s transport evidence and the CLI name by them what keeps an answer from arriving.',
    ...Object.entries<PathFault>(pathFaults).map(errorSection),
  ].join('\n\n')}\n`;

const credentialsInBody = {
  token: 'a token in the body',
  enrolment: 'an enrolment or join token in the body, or the instance credential',
  instances: 'one instance credential for each beat',
};

function whoMay(access: Access): string {
  switch (access.kind) {
    case 'public':
      return 'everybody';
    case 'agent':
      return 'instance credential';
    case 'body':
      return credentialsInBody[access.credential];
    case 'person':
      return `${access.role}${access.tenants === 'own' ? '; tenants for their own' : ''}`;
  }
}

const routeRow = ([name, route]: [string, RouteDeclaration]) =>
  `| \`${route.method} ${route.path}\` | ${route.summary} | ${whoMay(route.access)} | \`${name}\` |`;

function apiPage(): string {
  const byTag = Map.groupBy(Object.entries<RouteDeclaration>(routes), ([, route]) => route.tag);
  const sections = [...byTag].map(([tag, entries]) =>
    [`## ${tag}`, '', '| call | does | who | operation id |', '|---|---|---|---|', ...entries.map(routeRow)].join('\n'),
  );
  return `${[
    '# HTTP API',
    'Made from `src/contract/routes.ts` by `node scripts/generate-contract-docs.ts`; a test compares the two. A running server shows the schemas at `/docs` and gives them at `/openapi.json`.',
    'JSON in snake_case, times in RFC 3339. Unknown fields are refused, bodies are capped. Lists are `{items, next_cursor}`. Every change that a person makes takes an `Idempotency-Key` (scope: the token, kept for a day): its work, its answer and its audit line are one transaction. Errors are in [errors.md](errors.md).',
    ...sections,
  ].join('\n\n')}\n`;
}

/** Path from the repository root → content. */
export const contractDocs: Record<string, () => string> = {
  'docs/reference/errors.md': errorsPage,
  'docs/reference/api.md': apiPage,
};

export const fromRoot = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

if (import.meta.main)
  for (const [path, render] of Object.entries(contractDocs)) writeFileSync(fromRoot(path), render());
