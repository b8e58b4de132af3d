/** Questions none of which needs another's answer: at once where each gets a connection of its own, else one after another. */
import type { Queryable } from './database.ts';

type Question = () => Promise<unknown>;

type Answers<Questions extends readonly Question[]> = {
  [Index in keyof Questions]: Awaited<ReturnType<Questions[Index]>>;
};

export async function askAll<const Questions extends readonly Question[]>(
  db: Queryable,
  questions: Questions,
): Promise<Answers<Questions>> {
  if (!db.one_connection) return (await Promise.all(questions.map(async (ask) => ask()))) as Answers<Questions>;
  const answers: unknown[] = [];
  for (const ask of questions) answers.push(await ask());
  return answers as Answers<Questions>;
}
