/** Programs without commands of their own, the agent and the relay: each of their flags has an environment variable as well. The flag wins. */

interface Flag {
  type: 'string' | 'boolean';
  /** Given several times; a variable holds all of them, with commas in between. */
  multiple?: boolean;
}

const yes = ['1', 'true', 'yes', 'on'];

export const flagVariable = (program: string, flag: string): string =>
  `SLIPWAY_${program}_${flag}`.replaceAll('-', '_').toUpperCase();

const read = ({ type, multiple }: Flag, text: string): string | string[] | boolean => {
  if (type === 'boolean') return yes.includes(text.toLowerCase());
  return multiple ? text.split(',').map((each) => each.trim()) : text;
};

/** `named`: flags whose variable has a name of its own. An empty one counts as not set. */
export function withVariables<Values extends object>(
  given: Values,
  flags: Record<string, Flag>,
  env: Record<string, string | undefined>,
  { program, named = {} }: { program: string; named?: Record<string, string> },
): Values {
  const found = Object.entries(flags).flatMap(([name, flag]) => {
    const text = env[named[name] ?? flagVariable(program, name)];
    return name === 'help' || name in given || !text ? [] : [[name, read(flag, text)] as const];
  });
  return { ...given, ...Object.fromEntries(found) };
}
