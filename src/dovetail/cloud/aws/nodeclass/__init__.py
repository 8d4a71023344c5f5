"""What an EC2NodeClass stands for in an account at this moment, and what is made for it.

selectors   terms of selectors as filters, and answers as what a class resolves to (pure)
amis        terms of images as images, through SSM and EC2
profiles    the instance profile around a class's role: what to do next (pure), and doing it
checks      what can be said against a class once its selectors resolved (pure)
rehearsal   dry runs of a launch, and what their errors mean
memo        answers that are good for a while
resolver    all of it together
"""
