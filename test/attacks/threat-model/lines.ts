/** The lines of the threat model, and how they name the tests that show them. */
export interface ShownBy {
  /** From the root of the repository. */
  file: string;
  /** The title of a test or attack, exactly as in that file. */
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
