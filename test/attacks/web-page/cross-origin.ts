/** A page of another origin, open in the browser of a signed-in person. */
import { request } from 'node:http';
import { send } from '../../api/support/calls.ts';
import { signIn } from '../../api/support/sign-in.ts';
import type { Attack } from '../support/attack.ts';

/** Lists nodes with another Host header, which `fetch` does not let callers set. */
const statusWithHost = (url: string, host: string, cookie: string): Promise<number> =>
  new Promise((resolve, reject) => {
    const call = request(`${url}/v1/nodes`, { headers: { host, cookie } }, (reply) => {
      reply.resume();
      resolve(reply.statusCode ?? 0);
    });
    call.on('error', reject);
    call.end();
  });

const createsToken = async (url: string, token: string, origin: string): Promise<boolean> => {
  const cookie = await signIn(url, token);
  const body = { name: 'page', role: 'admin' };
  const { status } = await send(url, 'POST', '/v1/tokens', { body, headers: { cookie, origin } });
  return status === 201;
};

export const crossOriginAttacks: Attack[] = [
  {
    name: 'page: creates a token with the session of the person who opened the page',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: 'if (!URL.canParse(origin) || new URL(origin).host !== host)',
        replace: 'if (!URL.canParse(origin))',
      },
    ],
    succeeds: ({ url, token }) => createsToken(url, token, 'https://evil.example'),
  },
  {
    name: 'page: creates a token from a sandboxed frame, which has no origin',
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: "if (origin === 'null') throw new ApiProblem('origin_refused');",
        replace: '',
      },
    ],
    succeeds: ({ url, token }) => createsToken(url, token, 'null'),
  },
  {
    name: "page: reads the fleet under the attacker's host name, which resolves to the server",
    without: [
      {
        file: 'src/api/http/auth.ts',
        find: 'if (loopback_only && !loopbackNames.has(hostName(host)))',
        replace: 'if (false)',
      },
    ],
    async succeeds({ url, token }) {
      return (await statusWithHost(url, 'evil.example', await signIn(url, token))) === 200;
    },
  },
  {
    name: 'page: shows the console in a frame and makes people click in it',
    without: [{ file: 'src/api/http/static-files.ts', find: "frame-ancestors 'none'", replace: 'frame-ancestors *' }],
    async succeeds({ url }) {
      const { headers } = await send(url, 'GET', '/');
      return !(headers.get('content-security-policy') ?? '').includes("frame-ancestors 'none'");
    },
  },
];
