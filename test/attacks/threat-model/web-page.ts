/** The threat model for web pages. */
import { type Attacker, attack, authorization, test } from './lines.ts';

export const webPage: Attacker = {
  name: 'Web page',
  holds: 'a page that a signed-in person opens in their browser',
  can: [
    {
      says: 'Link to the console. The person lands there, and nothing happens by itself.',
      shown_by: test('test/browser/sign-in.test.ts', 'does not redirect to another site after sign-in'),
    },
  ],
  cannot: [
    {
      says: 'Act with that person’s session, or read through it.',
      shown_by: [
        ...attack('web-page/cross-origin')(
          'page: creates a token with the session of the person who opened the page',
          'page: creates a token from a sandboxed frame, which has no origin',
          "page: reads the fleet under the attacker's host name, which resolves to the server",
        ),
        ...authorization('refuses a request from a page of another origin'),
      ],
    },
    {
      says: 'Show the console in a frame.',
      shown_by: attack('web-page/cross-origin')('page: shows the console in a frame and makes people click in it'),
    },
  ],
};
