/**
 * Builds the URL of a probe from the node's base URL and the pool's path. The path cannot leave the
 * base URL.
 */

export type ProbeUrl = { url: URL } | { problem: string };

const schemes = ['http:', 'https:'];

/** The messages never repeat the URL, because it may contain a password. */
export function probeUrl(base_url: string, path: string): ProbeUrl {
  if (!URL.canParse(base_url)) return { problem: 'the base URL is not a URL' };
  const url = new URL(base_url);
  if (!schemes.includes(url.protocol))
    return { problem: `the base URL begins with ${url.protocol}; it must be http or https` };
  if (url.username !== '' || url.password !== '') return { problem: 'the base URL holds a user name or a password' };
  url.hash = '';
  if (path === '') return { url };

  const base = url.pathname.replace(/\/*$/, '/');
  const [relativePath = '', query] = splitOnce(path.replace(/#.*$/s, '').replace(/^[/\\]+/, ''), '?');
  // Assign the parts: parsing the path relative to the base could change the host.
  url.pathname = base + relativePath;
  url.search = query ?? '';
  if (!url.pathname.startsWith(base)) return { problem: 'the path leaves the base URL' };
  return { url };
}

function splitOnce(text: string, by: string): [string, string?] {
  const at = text.indexOf(by);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + by.length)];
}

/** Returns the host to resolve or connect to, without the brackets of an IPv6 literal. */
export const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, '');
