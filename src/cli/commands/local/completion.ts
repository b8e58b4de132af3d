/**
 * `slipway completion`: prints a completion script for a shell. The script is generated from the
 * commands, so it misses no command and no flag.
 */
import { Argument, type Command, type Option } from 'commander';
import { type MakeCommand, SlipwayCommand } from '../../command.ts';
import { printLines } from '../../terminal/terminal.ts';

const shells = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof shells)[number];
const isShell = (text: string): text is Shell => shells.some((shell) => shell === text);

interface KnownCommand {
  /** The words of the command, without `slipway`. */
  path: string[];
  description: string;
  subcommands: { name: string; description: string }[];
  options: { flags: string[]; description: string; takes_value: boolean; takes_path: boolean; choices: string[] }[];
  /** The allowed values of the command's arguments. */
  choices: string[];
  /** Whether an argument of the command is a file. */
  takes_file: boolean;
}

/** Flags and arguments that take a path are declared as `<file>` or `<dir>`. */
const takesPath = ({ flags }: Option) => /<(file|dir)>$/.test(flags);

const describeOption = (option: Option) => ({
  flags: [option.short, option.long].filter((flag): flag is string => typeof flag === 'string'),
  description: option.description,
  takes_value: option.required || option.optional,
  takes_path: takesPath(option),
  choices: [...(option.argChoices ?? [])],
});

const isVisible = (command: Command) => command.name() !== 'help';

/** Lists every command with all words that may follow it, including the shared flags. */
function listCommands(program: Command): KnownCommand[] {
  const walk = (command: Command, path: string[]): KnownCommand[] => {
    const subcommands = command.commands.filter(isVisible);
    const options = command === program ? command.options : [...command.options, ...program.options];
    return [
      {
        path,
        description: command.description(),
        subcommands: subcommands.map((sub) => ({ name: sub.name(), description: sub.description() })),
        options: options.filter((option) => !option.hidden).map(describeOption),
        choices: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
        takes_file: command.registeredArguments.some((argument) => argument.name() === 'file'),
      },
      ...subcommands.flatMap((sub) => walk(sub, [...path, sub.name()])),
    ];
  };
  return walk(program, []);
}

const wordsOf = (known: KnownCommand) => [
  ...known.subcommands.map(({ name }) => name),
  ...known.choices,
  ...known.options.flatMap(({ flags }) => flags.filter((flag) => flag.startsWith('--'))),
  '--help',
];

/** The script completes the value of a flag by command and flag, and any other word by command. */
function bash(program: Command): string[] {
  const all = listCommands(program);
  const byPath = all.map(
    (known) =>
      `    '${known.path.join(' ')}') words='${wordsOf(known).join(' ')}'${known.takes_file ? ' also=-f' : ''} ;;`,
  );
  const byFlag = all.flatMap((known) =>
    known.options.flatMap(({ flags, choices, takes_value, takes_path }) => {
      if (!takes_value) return [];
      const patterns = flags.map((flag) => `'${known.path.join(' ')} ${flag}'`).join('|');
      if (choices.length > 0) return [`    ${patterns}) words='${choices.join(' ')}' ;;`];
      return [`    ${patterns}) ${takes_path ? 'files=1' : 'return'} ;;`];
    }),
  );
  const groups = all.filter(({ subcommands }) => subcommands.length > 0).map(({ path }) => `'${path.join(' ')}'`);
  return [
    '# bash completion for slipway',
    '_slipway() {',
    `  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path='' word words='' files='' also='' i`,
    '  COMPREPLY=()',
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    `    word=\${COMP_WORDS[i]}`,
    '    case $word in -*) continue ;; esac',
    `    case $path in ${groups.join('|')}) path="\${path:+$path }$word" ;; *) break ;; esac`,
    '  done',
    '  case "$path $prev" in',
    ...byFlag,
    '  esac',
    '  if [[ -n $files ]]; then COMPREPLY=($(compgen -f -- "$cur")); return; fi',
    '  if [[ -z $words ]]; then case "$path" in',
    ...byPath,
    '  esac; fi',
    '  COMPREPLY=($(compgen $also -W "$words" -- "$cur"))',
    '}',
    'complete -F _slipway slipway ./bin/slipway',
  ];
}

/** zsh can run bash completions. */
const zsh = (program: Command): string[] => [
  '# zsh completion for slipway',
  'autoload -U +X bashcompinit && bashcompinit',
  ...bash(program).slice(1),
];

const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;

function fish(program: Command): string[] {
  const all = listCommands(program);
  return [
    '# fish completion for slipway',
    'complete -c slipway -f',
    ...all.flatMap(({ path, subcommands, options, choices, takes_file }) => {
      const names = subcommands.map(({ name }) => name).join(' ');
      const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
      const noSubcommandYet = names === '' ? '' : `not __fish_seen_subcommand_from ${names}`;
      const condition = [seen, noSubcommandYet].filter(Boolean).join('; and ');
      const ownOptions =
        path.length === 0 ? options : options.filter(({ flags }) => !programFlags(program).has(flags.at(-1) ?? ''));
      const where = path.length === 0 ? '' : ` -n ${quote(seen)}`;
      return [
        ...subcommands.map(
          ({ name, description }) => `complete -c slipway -n ${quote(condition)} -a ${name} -d ${quote(description)}`,
        ),
        ...(takes_file ? [`complete -c slipway -n ${quote(seen)} -F`] : []),
        ...choices.map((choice) => `complete -c slipway -n ${quote(seen)} -a ${choice}`),
        ...ownOptions.map(
          (option) =>
            `complete -c slipway${where}${fishFlags(option.flags)}${fishValue(option)} -d ${quote(option.description)}`,
        ),
      ];
    }),
  ];
}

const programFlags = (program: Command) => new Set(program.options.map((option) => option.long ?? ''));

const fishFlags = (flags: string[]) =>
  flags.map((flag) => (flag.startsWith('--') ? ` -l ${flag.slice(2)}` : ` -s ${flag.slice(1)}`)).join('');

const fishValue = ({ takes_value, takes_path, choices }: KnownCommand['options'][number]) => {
  if (!takes_value) return '';
  if (choices.length > 0) return ` -x -a ${quote(choices.join(' '))}`;
  return takes_path ? ' -r -F' : ' -x';
};

export const completionScripts: Record<Shell, (program: Command) => string[]> = { bash, zsh, fish };

export const makeCompletion: MakeCommand = (cli) =>
  new SlipwayCommand('completion')
    .description('Print a completion script for your shell.')
    .addArgument(new Argument('<shell>', 'your shell').choices(shells))
    .examples(
      'source <(slipway completion bash)',
      'source <(slipway completion zsh)',
      'slipway completion fish > ~/.config/fish/completions/slipway.fish',
    )
    // This command needs no server, so it opens no session.
    .action((shell: string, _options: unknown, command: Command) => {
      const program = command.parent;
      if (program && isShell(shell)) printLines(cli.terminal.out, completionScripts[shell](program));
    });
