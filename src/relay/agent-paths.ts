/**
 * Decides which paths a relay serves: the agent routes of the contract. The path is normalised
 * first, and the normalised path is the one that is forwarded.
 */
import { routes } from '../contract/routes.ts';

export interface Target {
  path: string;
  /** Includes the question mark; empty if there is no query. */
  search: string;
}

/** Placeholder so that URL can parse a path; never used as a host. */
const anyHost = 'http://relay';

/** Returns null if the URL names another host or cannot be parsed. */
export function targetOf(url: string): Target | null {
  if (!url.startsWith('/') || !URL.canParse(anyHost + url)) return null;
  const { pathname, search } = new URL(anyHost + url);
  return { path: pathname, search };
}

/** The characters of an id, as agents encode it. Nothing here can be read as another path. */
const oneId = '(?:[A-Za-z0-9._:-]|%3A)+';

const agentPaths = Object.values(routes)
  .filter(({ tag }) => tag === 'agent')
  .map(({ path }) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, oneId)}$`));

export const isAgentPath = (path: string): boolean => agentPaths.some((each) => each.test(path));
