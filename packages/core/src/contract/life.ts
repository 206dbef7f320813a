/** Names of lives. Several processes of a trainer with the same life are one writer. */

/** Maximum length of a life's name, in UTF-16 units. */
export const LIFE_LENGTH_MAX = 256;

/** Why a name is not valid for a life, as a phrase to follow "it"; `null`: it is valid. */
export function lifeProblem(name: string): string | null {
  if (name.trim() === '') return name === '' ? 'is empty' : 'holds only spaces';
  if (name.length > LIFE_LENGTH_MAX) return `has ${name.length} characters`;
  if (/\p{Cc}/u.test(name)) return 'holds a control character';
  if (!name.isWellFormed()) return 'is not well-formed Unicode';
  return null;
}

/** The names accepted for a life, for messages. */
export const LIFE_ACCEPTED = `1 to ${LIFE_LENGTH_MAX} characters, not only spaces, without control characters`;
