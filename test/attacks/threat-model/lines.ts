/** What a line of the threat model is, and how it names the tests that show it. */
export interface ShownBy {
  /** From the root of the repository. */
  file: string;
  /** The title of a test or attack in that file, as it is written there. */
  title: string;
}

export interface ThreatLine {
  says: string;
  shown_by: ShownBy[];
}

export interface Attacker {
  name: string;
  holds: string;
  can: ThreatLine[];
  cannot: ThreatLine[];
}

export const attack =
  (file: string) =>
  (...titles: string[]): ShownBy[] =>
    titles.map((title) => ({ file: `test/attacks/${file}.ts`, title }));

export const test = (file: string, title: string): ShownBy[] => [{ file, title }];

export const authorization = (title: string) => test('test/api/access/authorization.test.ts', title);
