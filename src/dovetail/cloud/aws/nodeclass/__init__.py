"""What an EC2NodeClass stands for in an account at this moment, and what is made for it.

selectors    terms of selectors as filters, and answers as what a class resolves to (pure)
validation   what no node could use of a class, before and after its selectors resolved (pure)
profiles     the instance profile around a class's role: what to do next (pure), and doing it
dryruns      dry runs of launches, and what their errors mean
resolver     all of it together, and what classes stood for when last asked
drift        what a class would launch otherwise now than it did (pure)
"""
